//! The page is whole and safe whatever the documents hold; its figures are XML; the table comes back.

mod arbitrary;
mod arbitrary_net;
mod arbitrary_trace;
pub(crate) mod builder;
pub(crate) mod cluster_builder;
mod cluster_page;
pub(crate) mod insert_builder;
pub(crate) mod net_builder;
mod net_page;
mod page;
mod samples;
mod table;
pub(crate) mod trace_page;
