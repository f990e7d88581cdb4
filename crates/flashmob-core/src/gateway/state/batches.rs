//! What all batches share: how many are out, and memory that is used again.

use super::queue::Piece;

#[derive(Debug, Default)]
pub struct Batches {
    /// Batches out on all links together.
    pub out: usize,
    /// Where a batch's description is written.
    pub meta: Vec<u8>,
    /// Lists of pieces for the next batches.
    pub pool: Vec<Vec<Piece>>,
}
