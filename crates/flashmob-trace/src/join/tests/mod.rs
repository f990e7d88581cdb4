//! Tests of the join with constructed events.

mod arbitrary;
mod builder;
mod commands;
mod files;
mod requests;
mod time;
