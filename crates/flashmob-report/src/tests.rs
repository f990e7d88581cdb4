//! The page is whole and safe whatever the documents hold; its figures are XML; the table comes back.

mod arbitrary;
pub(crate) mod builder;
mod page;
mod samples;
mod table;
