//! Events during a measurement: one JSON object per line.

use serde::{Deserialize, Serialize};

use crate::disk::{Parameters, Repetition};
use crate::{Document, cluster, net};

/// One line of `--output ndjson`. The last one is always `end`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// It begins.
    Begin {
        /// Version of these lines and of the document at the end.
        format_version: u32,
        /// Version of the flashmob that measures.
        program_version: String,
        /// Combinations of parameters.
        points: u64,
        /// Repetitions of each.
        repeat: u32,
        /// Random seed.
        seed: u64,
    },
    /// The file is being made.
    Making {
        /// Bytes that are written.
        done_bytes: u64,
        /// Bytes that it will have.
        size_bytes: u64,
    },
    /// Progress, about once a second.
    Progress {
        /// From 0 to 1.
        fraction: f64,
        /// Since the beginning.
        elapsed_s: f64,
        /// Estimated remaining time; absent while it cannot be estimated.
        left_s: Option<f64>,
    },
    /// One repetition is over.
    Repetition {
        /// Which round, from 0.
        round: u32,
        /// What was measured.
        parameters: Box<Parameters>,
        /// How it went.
        repetition: Box<Repetition>,
    },
    /// One repetition of a cluster's measurement is over.
    ClusterRepetition {
        /// Which round, from 0.
        round: u32,
        /// What was measured.
        parameters: Box<cluster::Parameters>,
        /// How it went.
        repetition: Box<cluster::Repetition>,
    },
    /// One stream during one interval of `flashmob bench net`.
    NetInterval {
        /// Which round, from 0.
        round: u32,
        /// What it did.
        interval: Box<net::Interval>,
    },
    /// One repetition of `flashmob bench net` is over.
    NetRepetition {
        /// Which round, from 0.
        round: u32,
        /// What was measured.
        parameters: Box<net::Parameters>,
        /// How it went.
        repetition: Box<net::Repetition>,
    },
    /// It is over; with the whole result.
    End {
        /// The whole result, as `--output json` prints it.
        result: Box<Document>,
    },
}
