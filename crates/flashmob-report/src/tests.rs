//! The page is whole and safe whatever the documents hold; its figures are XML; the table comes back.

mod arbitrary;
mod arbitrary_net;
pub(crate) mod builder;
pub(crate) mod cluster_builder;
mod cluster_page;
pub(crate) mod net_builder;
mod net_page;
mod page;
mod samples;
mod table;
