//! A QR code on a terminal: two modules in a character, dark on light whatever the terminal's own colours.

use qrcodegen::{QrCode, QrCodeEcc};

/// Modules of light around it (ISO/IEC 18004 asks for four).
const QUIET: i32 = 4;
/// Black on white out of the 256 colours: the first sixteen are what a theme makes of them.
const COLOURS: (&str, &str) = ("\x1b[38;5;16;48;5;231m", "\x1b[0m");

/// The code of `text`, a line for each two rows. Without colours light is drawn and dark left out, for a dark terminal.
pub fn draw(text: &str, colours: bool) -> Option<String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    // Beyond its edge a code is light.
    let is_inked = |x, y| code.get_module(x, y) == colours;
    let size = code.size();
    let mut lines = Vec::new();
    let mut y = -QUIET;
    while y < size + QUIET {
        // A last row without a partner: what is below it is light, as is all of the border.
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
