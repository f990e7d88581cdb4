//! Numbers, units, tables and wrapped lines as people read and write them: one of each.
//!
//! Parsers: [`parse_duration`], [`parse_size`], [`parse_bit_rate`], [`parse_percent`]. Each error names the text and gives an example.
//!
//! Numbers are printed with three significant digits, whole from 100 on, without trailing zeros, in three forms:
//!
//! | form | function | 1234.5 | where, and why |
//! |---|---|---|---|
//! | table | [`number`] | `1235` | tables on a terminal: a column is compared by its length, and `sort -n` and `awk` read it |
//! | sentence | [`sentence`], [`count`] | `1,235` | sentences and pages: a digit more or less shows without counting |
//! | short | [`short`] | `1235`, from 10,000 on `12.3k` | where room is fixed: the axes of figures, and cells of `flashmob status` |
//!
//! Quantities with a unit ([`Bytes`], [`time`], [`bits_per_second`]) choose the unit so that few digits are left. Results in JSON have plain
//! numbers in base units; this crate does not print them.

#![forbid(unsafe_code)]

mod duration;
mod number;
mod rate;
mod size;
mod table;
mod wrap;

pub use duration::{DurationError, exact_duration, parse_duration, parse_duration_in};
pub use number::{bits_per_second, count, number, percent, sentence, short, time};
pub use rate::{parse_bit_rate, parse_percent};
pub use size::{Bytes, GIB, KIB, MIB, SizeError, parse_size};
pub use table::{Colour, Row, Side, Table, aligned};
pub use wrap::{columns, fold, harmless, message_lines, one_line, quoted, quoted_beside_digits, shortened, wrapped};
