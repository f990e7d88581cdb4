//! The join, fed with events that are written down here.

mod arbitrary;
mod builder;
mod commands;
mod files;
mod requests;
mod time;
