//! How the kernel at hand lays out events and pages, read at run time, for it differs between kernels: `events/SYSTEM/NAME/format` and
//! `events/header_page`.
//!
//! No I/O. Whatever the text says, nothing here panics, and no value is read from outside of a record. Numbers are little-endian, as on every
//! processor that this project runs on.

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
    /// `block`, `ext4`, `syscalls`.
    pub system: String,
    /// `block_rq_issue`, `sys_enter_pwrite64`.
    pub name: String,
    /// The number that its records bear.
    pub id: u16,
    /// Fields, the common ones included.
    pub fields: Vec<Field>,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The type as C writes it, brackets of arrays included: `unsigned int`, `char[16]`, `const char *`.
    pub c_type: String,
    /// Where it begins in the record.
    pub offset: usize,
    /// Bytes. An array of 0 goes on to the end of the record.
    pub size: usize,
    /// A number with a sign.
    pub is_signed: bool,
    /// How to read it.
    pub shape: Shape,
}

/// How a field is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of `size` bytes.
    Number,
    /// `size` bytes in place: text up to the first NUL, or numbers.
    Array,
    /// `__data_loc`: offset and length elsewhere in the record.
    Located,
    /// `__rel_loc`: the same, counted from the end of the field.
    RelativelyLocated,
}

impl EventFormat {
    /// A field by name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}
