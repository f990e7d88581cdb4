//! The forms of an answer.

use clap::ValueEnum;

/// The forms of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// For programs.
    Json,
}
