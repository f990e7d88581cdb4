//! The command line of flashmob, and what only it needs: the lab and the processes that it starts. What serves is
//! [`flashmob_server`].

pub mod commands;
pub mod lab;
mod process;
