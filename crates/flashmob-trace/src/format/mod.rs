//! The running kernel's layout of events and pages, read at run time because it differs between kernels: `events/SYSTEM/NAME/format` and
//! `events/header_page`.
//!
//! No I/O. Malformed text never causes a panic, and no value is read from outside a record. Numbers are little-endian, as on all
//! supported processors.

mod header;
mod parse;
#[cfg(test)]
mod tests;
mod value;

pub use header::{HeaderError, PageLayout};
pub use parse::FormatError;

/// The layout of one kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's system: `block`, `ext4`, `syscalls`.
    pub system: String,
    /// The event's name: `block_rq_issue`, `sys_enter_pwrite64`.
    pub name: String,
    /// The event ID in its records.
    pub id: u16,
    /// All fields, including the common ones.
    pub fields: Vec<Field>,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The C type, with the brackets of arrays: `unsigned int`, `char[16]`, `const char *`.
    pub c_type: String,
    /// Offset in the record.
    pub offset: usize,
    /// Size in bytes. An array of size 0 extends to the end of the record.
    pub size: usize,
    /// The number is signed.
    pub is_signed: bool,
    /// How the field is stored.
    pub shape: Shape,
}

/// How a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of `size` bytes.
    Number,
    /// `size` bytes in place: text up to the first NUL, or an array of numbers.
    Array,
    /// `__data_loc`: offset and length elsewhere in the record.
    Located,
    /// `__rel_loc`: the same, with the offset relative to the end of the field.
    RelativelyLocated,
}

impl EventFormat {
    /// Returns a field by name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}
