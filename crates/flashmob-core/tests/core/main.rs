//! Tests of the state machines from outside, in one program.

mod alive;
mod answers_together;
mod charges;
mod copies_hedge;
mod copies_loss;
mod copies_open;
mod copies_pieces;
mod copies_rot;
mod copies_scrub;
mod copies_silence;
mod digests;
mod fairness;
mod gateway_unfit_extent;
mod held;
mod link_deadlines;
mod maps;
mod mirrors;
mod node_links;
mod node_sequence;
mod one_way;
mod review;
mod samples;
mod slow_flush;
mod testing;
mod told;
mod wire_document;
