//! Parses the text of `events/SYSTEM/NAME/format`.

use super::{EventFormat, Field, Shape};

/// Why a layout cannot be used, with the system of the event and, if known, its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The line with this prefix is missing.
    #[error("the format of an event of '{0}' has no line '{1}'")]
    Missing(String, &'static str),
    /// The event ID is malformed, or too large for a record.
    #[error("the format of {0}:{1} has '{2}' where a number up to 65535 should be")]
    Id(String, String, String),
    /// A field's line is malformed.
    #[error("the format of {0}:{1} has a field that cannot be understood: '{2}'")]
    Field(String, String, String),
}

/// Maximum characters of a line in a message.
const SHOWN_CHARACTERS: usize = 80;

impl EventFormat {
    /// Parses the text of `events/SYSTEM/NAME/format`, which names the event but not its system.
    ///
    /// # Errors
    /// A missing name or number, or a malformed field.
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, FormatError> {
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for line in text.lines() {
            if line.starts_with("print fmt:") {
                break;
            }
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = Some(value.trim());
            } else if line.trim_start().starts_with("field") {
                let make = || FormatError::Field(shown(system), shown(name.unwrap_or_default()), shown(line.trim()));
                fields.push(field(line).ok_or_else(make)?);
            }
        }
        let missing = |line| FormatError::Missing(shown(system), line);
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| missing("name:"))?;
        let id = id.ok_or_else(|| missing("ID:"))?;
        let number = id.parse().map_err(|_| FormatError::Id(shown(system), shown(name), shown(id)))?;
        Ok(EventFormat { system: system.to_string(), name: name.to_string(), id: number, fields })
    }
}

/// `field:unsigned char rwbs[10]; offset:34; size:10; signed:0;`. Some kernels mark fields for their own use as `field special:`.
pub fn field(line: &str) -> Option<Field> {
    let mut parts = line.trim().trim_end_matches(';').split(';').map(str::trim);
    let (kind, declaration) = parts.next()?.split_once(':')?;
    if kind.trim() != "field" && kind.trim() != "field special" {
        return None;
    }
    let (mut offset, mut size, mut is_signed) = (None, None, None);
    for part in parts {
        let (key, value) = part.split_once(':')?;
        match key.trim() {
            "offset" => offset = Some(value.trim().parse::<u32>().ok()?),
            "size" => size = Some(value.trim().parse::<u32>().ok()?),
            "signed" => is_signed = Some(value.trim() == "1"),
            _ => {}
        }
    }
    let (c_type, name, located) = declared(declaration)?;
    let size = size? as usize;
    let is_array = c_type.ends_with(']') || !matches!(size, 1 | 2 | 4 | 8);
    let shape = match located {
        // The location of a value is stored as a number of 4 bytes.
        Some(shape) if size == 4 => shape,
        Some(_) => return None,
        None if is_array => Shape::Array,
        None => Shape::Number,
    };
    let (name, is_signed) = (name.to_string(), is_signed.unwrap_or(false));
    Some(Field { name, c_type, offset: offset? as usize, size, is_signed, shape })
}

/// Type, name, and the shape if the value is located elsewhere: of `__data_loc char[] cmd`, `char rwbs[10]`, `const char * filename`.
fn declared(declaration: &str) -> Option<(String, &str, Option<Shape>)> {
    let declaration = declaration.trim();
    let (declaration, located) = match declaration.split_once(char::is_whitespace) {
        Some(("__data_loc", rest)) => (rest.trim(), Some(Shape::Located)),
        Some(("__rel_loc", rest)) => (rest.trim(), Some(Shape::RelativelyLocated)),
        _ => (declaration, None),
    };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // An array's brackets follow its name, and may contain an expression: `char comm[TASK_COMM_LEN + 1]`.
    let (head, brackets) = match declaration.find('[') {
        Some(at) if declaration.ends_with(']') => declaration.split_at(at),
        _ => (declaration, ""),
    };
    let begin = head.rfind(|c| !is_of_name(c)).map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
    let (c_type, name) = head.split_at(begin);
    (!name.is_empty()).then(|| (format!("{}{brackets}", c_type.trim()), name, located))
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS).collect()
}
