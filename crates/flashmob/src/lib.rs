//! The command line of flashmob, and what only it needs: the lab and the processes that it starts. The commands of a device
//! that serves are in [`flashmob_node`], and what serves in [`flashmob_server`].

#[macro_use]
extern crate flashmob_node;

pub mod commands;
pub mod lab;
mod process;
