//! A QR code on a terminal: two modules per character, dark on light regardless of the terminal's colours.

use qrcodegen::{QrCode, QrCodeEcc};

/// Light modules around it (ISO/IEC 18004 requires four).
const QUIET: i32 = 4;
/// Black on white of the 256 colours: themes change the first sixteen.
const COLOURS: (&str, &str) = ("\x1b[38;5;16;48;5;231m", "\x1b[0m");

/// The code of `text`, a line for each two rows. Without colours, light modules are drawn and dark ones are blank, for dark terminals.
pub fn draw(text: &str, colours: bool) -> Option<String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    // Outside its edge a code is light.
    let is_inked = |x, y| code.get_module(x, y) == colours;
    let size = code.size();
    let mut lines = Vec::new();
    let mut y = -QUIET;
    while y < size + QUIET {
        // The last row may have no partner: below it is light, as in the border.
        let line = (-QUIET..size + QUIET).map(|x| match (is_inked(x, y), is_inked(x, y + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        });
        let line: String = line.collect();
        lines.push(if colours { format!("{}{line}{}", COLOURS.0, COLOURS.1) } else { line });
        y += 2;
    }
    Some(lines.join("\n"))
}
