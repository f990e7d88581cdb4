//! The volumes of a gateway in detail, by node: the JSON of `/volumes` and of `flashmob volume show`; what can be changed about them.
//!
//! `schema/volumes-1.json` describes it. Fields may be added; none changes its meaning without a new `schema`.

use serde::{Deserialize, Serialize};

use super::measure::MeasurementReport;

/// The version of this form.
pub const SCHEMA: u32 = 1;
/// Most ranges that are listed of chunks whose loss was accepted; further chunks are counted.
pub const ACCEPTED_RANGES_MAX: usize = 4096;
/// The largest request to change something, in bytes.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// All volumes of a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VolumesReport {
    /// Version of this form: 1.
    pub schema: u32,
    /// flashmob's version.
    pub version: String,
    /// Each volume.
    pub volumes: Vec<VolumeDetails>,
    /// The measurement of a node that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<MeasurementReport>,
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VolumeDetails {
    /// The export's name.
    pub name: String,
    /// Its size, once known.
    pub size_bytes: Option<u64>,
    /// Its copies; absent for layouts without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopiesDetails>,
    /// Its nodes, in the order of the configuration.
    pub nodes: Vec<NodeDetails>,
}

/// The copies of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CopiesDetails {
    /// Copies of each chunk.
    pub copies: usize,
    /// The copies that the worst chunk has left: those that are known to have everything.
    pub fewest_current: usize,
    /// Chunks of the volume.
    pub chunks: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// What is left to be made current, and how fast that goes.
    pub rebuild: Rebuild,
    /// What moves to other nodes.
    #[serde(default)]
    pub moves: MovesDetails,
    /// Why the map cannot be written, while it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_trouble: Option<String>,
    /// Why nothing is served for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Why this gateway is no longer in charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// Scrubs of all copies, and what they found that cannot be mended.
    #[serde(default)]
    pub scrub: ScrubDetails,
}

/// Copies that move to other nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MovesDetails {
    /// Nodes are to be filled evenly.
    pub is_balancing: bool,
    /// Copies that are to move, as far as it is planned.
    pub left_copies: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Copies that are to leave their node, and for which there is no room on nodes that are there.
    pub stranded_copies: u32,
    /// Chunks that cannot be moved before a block of them is written again, or a node is back: no copy that is there matches its checksum.
    #[serde(default)]
    pub unreadable_chunks: usize,
    /// Chunks that cannot be moved now: no current copy of them is there.
    #[serde(default)]
    pub without_source_chunks: usize,
    /// A node that has its part in filling nodes evenly, and cannot be used now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for_node: Option<usize>,
    /// Somebody ended filling them evenly before it was done.
    #[serde(default)]
    pub was_cancelled: bool,
    /// Bytes of copies that were moved in a second, lately; absent while none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// When all that is planned has moved at that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<f64>,
}

/// Scrubs of all copies of a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScrubDetails {
    /// All copies are read from the flash, verified and compared.
    pub compare: PassDetails,
    /// Blocks of 4 KiB that scrubs found not to match their checksums, since the gateway's start.
    pub corrupt_blocks: u64,
    /// Blocks that were written again with what another copy has, by whatever they were found, since the gateway's start.
    pub mended_blocks: u64,
    /// Chunks with blocks that are known not to match, and are to be written again.
    pub mending_chunks: usize,
    /// The places of what cannot be mended.
    pub bad: Vec<BadPlace>,
    /// Blocks that cannot be mended, and found no room in that list.
    pub unlisted_blocks: u64,
}

/// One kind of scrubs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PassDetails {
    /// One is under way.
    pub is_running: bool,
    /// It goes on whatever devices do: charging or not, cool or hot.
    pub is_now: bool,
    /// Bytes of the volume, or of a node's copies, that it has gone through.
    pub done_bytes: u64,
    /// All of them.
    pub total_bytes: u64,
    /// In what time it is through, at the speed so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<f64>,
    /// Why it does not go on now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// How long ago the last one ended; absent if none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_seconds_ago: Option<f64>,
    /// In what time the next is due; absent if none is planned, or one is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_seconds: Option<f64>,
    /// Blocks that it, or the last one since the gateway's start, found not to match or to differ.
    pub found_blocks: u64,
    /// Ranges that the same one left out, of some copies or of all: their nodes were away or failed to read them.
    pub left_out: u32,
    /// Copies that lacked something when the same one came to their chunk: it did not compare them.
    #[serde(default)]
    pub behind_copies: u32,
}

/// Neighbouring blocks that cannot be mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BadPlace {
    /// Their first byte in the volume.
    pub offset_bytes: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// `unreadable`: they match their checksums on no current copy, and reads of them fail. `differs`: copies differ, though each matches.
    pub flaw: String,
    /// The nodes with these copies, by their numbers.
    pub nodes: Vec<usize>,
}

/// Copies that lack something are made current.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rebuild {
    /// Copies that lack something, of all chunks.
    pub behind_copies: u32,
    /// Their bytes: what has to be compared, and copied where it differs.
    pub left_bytes: u64,
    /// Bytes of copies that were made current in a second, over the last minute; absent while none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// When it is done at that rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<f64>,
}

impl Rebuild {
    /// So many copies are behind, and were made current at this rate.
    #[must_use]
    pub fn of(behind_copies: u32, chunk_bytes: u64, bytes_per_second: Option<f64>) -> Rebuild {
        let left_bytes = u64::from(behind_copies) * chunk_bytes;
        let bytes_per_second = bytes_per_second.filter(|_| behind_copies > 0);
        let eta_seconds = bytes_per_second.filter(|rate| *rate > 0.0).map(|rate| left_bytes as f64 / rate);
        Rebuild { behind_copies, left_bytes, bytes_per_second, eta_seconds }
    }
}

/// One node of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeDetails {
    /// Its number in the volume, from 0.
    pub number: usize,
    /// Its address or path.
    pub name: String,
    /// `ready`, `connecting`, `waiting`, `refused`, or `drained`: it has no copies any more, and is not linked.
    pub state: String,
    /// Why it cannot be used until somebody intervenes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Size of its extent, once known.
    pub size_bytes: Option<u64>,
    /// What its device fails, as in `is full`; absent if it is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_fails: Option<String>,
    /// Its part in a volume with copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberDetails>,
}

/// The part of a node in a volume with copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberDetails {
    /// The extent that the map knows, in hexadecimal; absent before the node was linked for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<String>,
    /// No two copies of a chunk are in one domain.
    pub domain: String,
    /// Copies on it.
    pub copies: u32,
    /// Those of them that lack something.
    pub behind: u32,
    /// Those of which it is not known whether they lack something.
    pub doubtful: u32,
    /// Those whose chunks have no other current copy.
    pub only: u32,
    /// If it has the only current copies of chunks and is not linked: of how many of them another copy becomes current if the loss is accepted now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptable_chunks: Option<u32>,
    /// The same: why the loss is not accepted now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_acceptable: Option<String>,
    /// Chunks that it has room for, those on it included.
    #[serde(default)]
    pub slots: u32,
    /// It was added, and is not used yet: it was not linked, or its extent was not looked through.
    #[serde(default)]
    pub is_joining: bool,
    /// It is not used, as its extent holds data that is not of this volume, or cannot show that it does not.
    #[serde(default)]
    pub holds_data: bool,
    /// It is drained: its copies are to be moved to other nodes.
    #[serde(default)]
    pub is_leaving: bool,
    /// That is done: it can be switched off.
    #[serde(default)]
    pub is_drained: bool,
    /// It is paused: not used, as somebody wants it.
    #[serde(default)]
    pub is_paused: bool,
    /// For how long it has been out, because it left requests unanswered or is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_seconds: Option<f64>,
    /// The extent that is at its address instead, and is refused: `flashmob volume replace` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<String>,
    /// Its copies are read from the flash and verified.
    #[serde(default)]
    pub scrub: PassDetails,
}

/// Asks a gateway to scrub a volume, or to stop that: the body of a POST to `/volumes/scrub`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubRequest {
    /// The volume's name.
    pub volume: String,
    /// Whatever devices do: charging or not, cool or hot.
    #[serde(default)]
    pub now: bool,
    /// Ends what is under way instead.
    #[serde(default)]
    pub stop: bool,
}

/// It is scrubbed, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubAnswer {
    /// The volume's name.
    pub volume: String,
    /// A scrub of all its copies is under way.
    pub is_running: bool,
}

/// Asks a gateway to pause a node of a volume with copies, or to use it again: the body of a POST to `/volumes/pause`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// The volume's name.
    pub volume: String,
    /// The node's number in it.
    pub node: usize,
    /// It is to be used again.
    #[serde(default)]
    pub resume: bool,
}

/// It is paused, or used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseAnswer {
    /// The volume's name.
    pub volume: String,
    /// The node's number in it.
    pub node: usize,
    /// It is paused.
    pub is_paused: bool,
}

/// Asks a gateway to move copies: away from a node, or from full nodes to empty ones. The body of a POST to `/volumes/move`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The volume's name.
    pub volume: String,
    /// The node that is to be drained; without one, nodes are to be filled evenly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// No longer.
    #[serde(default)]
    pub cancel: bool,
    /// Only say what would move.
    #[serde(default)]
    pub dry_run: bool,
}

/// It is on record, unless it is a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MoveAnswer {
    /// The volume's name.
    pub volume: String,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// Copies that will move, as planned now.
    pub copies: u64,
    /// Their bytes. What is a hole is not copied.
    pub bytes: u64,
    /// Bytes that go over the network for that, at most: each is read by the gateway and written by it, and hashes are compared.
    pub air_bytes: u64,
    /// Bytes of copies that moved in a second when some did last; absent if none did for 2 s since the gateway was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<f64>,
    /// How long it takes at that speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<f64>,
}

/// Asks a gateway to add a node to a volume with copies. The body of a POST to `/volumes/add`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRequest {
    /// The volume's name.
    pub volume: String,
    /// Where the node is: `host`, or `host:port`.
    pub address: String,
    /// The size that its extent has to have, in bytes; without it, it has whatever size it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What it may fail together with; without it, the node fails alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// What its extent holds may be overwritten.
    #[serde(default)]
    pub overwrite: bool,
}

/// It is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddAnswer {
    /// The volume's name.
    pub volume: String,
    /// The node's number in it.
    pub node: usize,
    /// Its address, with its port.
    pub address: String,
}

/// Asks a gateway to give a volume with copies another size. The body of a POST to `/volumes/resize`.
///
/// Making it smaller takes its time: the answer says that it is under way, and the same request with its number gets the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    /// The volume's name.
    pub volume: String,
    /// The size that it is to have, in bytes: a multiple of its chunks.
    pub size_bytes: u64,
    /// What lies behind a smaller end is given up.
    #[serde(default)]
    pub give_up: bool,
    /// Only say whether that can be.
    #[serde(default)]
    pub dry_run: bool,
    /// What came of one that is under way, by its number. Nothing is begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<u64>,
}

/// It is on record, unless it is a dry run, or under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeAnswer {
    /// The volume's name.
    pub volume: String,
    /// What it had, in bytes.
    pub from_bytes: u64,
    /// What it has now. Clients that are connected keep to the size that they were told.
    pub size_bytes: u64,
    /// It does not have that yet: what lies behind the new end is being looked through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<UnderWay>,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// Its number.
    pub number: u64,
    /// Bytes that were looked at.
    pub done_bytes: u64,
    /// All of them.
    pub total_bytes: u64,
}

/// Asks a gateway to remove a node that has no copies any more. The body of a POST to `/volumes/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// The volume's name.
    pub volume: String,
    /// The node's number in it.
    pub node: usize,
}

/// It is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveAnswer {
    /// The volume's name.
    pub volume: String,
    /// The node's number, which is not used again.
    pub node: usize,
}

/// Asks a gateway to give up the extent of a node, and to take the one that is at its address instead: the body of a POST to
/// `/volumes/replace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceRequest {
    /// The volume's name.
    pub volume: String,
    /// The node's number in it.
    pub node: usize,
    /// The extent to take, in hexadecimal, as it was shown to whoever decides.
    pub extent: String,
    /// Chunks of which the old extent has the only current copy get the best other one as that: see [`AcceptLossRequest`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_loss: bool,
}

/// It was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplaceAnswer {
    /// The extent that was given up, in hexadecimal.
    pub given_up: String,
    /// The one in its place.
    pub taken: String,
    /// Copies that have to be made again.
    pub copies: u32,
    /// The configuration names the extent that was given up: it has to be corrected before the next start.
    pub is_named_in_configuration: bool,
    /// The map has it durably. Otherwise it is decided, and recorded as soon as the map can be written; if the gateway is killed before that,
    /// the extent that was given up is back.
    pub is_recorded: bool,
    /// Chunks of which the extent that was given up had the only current copy.
    #[serde(default)]
    pub accepted_chunks: u32,
    /// Where they lie.
    #[serde(default)]
    pub accepted_ranges: Vec<AcceptedRange>,
    /// How many of these chunks found no room in that list.
    #[serde(default)]
    pub unlisted_chunks: u32,
}

/// Asks a gateway to accept the loss of the chunks whose only current copies are on nodes that are gone for good: the best other copy of each becomes
/// current. The body of a POST to `/volumes/accept-loss`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptLossRequest {
    /// The volume's name.
    pub volume: String,
    /// The numbers of the nodes that are gone for good.
    pub nodes: Vec<usize>,
    /// How many chunks were shown to whoever decides: with another number by now, nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Only say which chunks it would be.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to an [`AcceptLossRequest`]: the loss is on record, unless it was a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptLossAnswer {
    /// The volume's name.
    pub volume: String,
    /// The nodes that are given up.
    pub nodes: Vec<usize>,
    /// How many chunks get another current copy.
    pub chunks: u32,
    /// Where they lie.
    pub ranges: Vec<AcceptedRange>,
    /// How many of these chunks found no room in that list.
    pub unlisted_chunks: u32,
    /// Numbers of chunks that stay without a current copy, as they have none on another node.
    pub chunks_without_copy: Vec<u32>,
}

/// Asks a gateway to compare all copies on a node with others, and to make them equal to those. The body of a POST to `/volumes/resync`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResyncRequest {
    /// The volume's name.
    pub volume: String,
    /// The number of the node.
    pub node: usize,
}

/// The answer to a [`ResyncRequest`]: it is on record that the copies lack something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResyncAnswer {
    /// The volume's name.
    pub volume: String,
    /// The node.
    pub node: usize,
    /// How many copies are made equal.
    pub copies: u32,
}

/// Neighbouring chunks of which a copy on one node becomes current though it lacks something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AcceptedRange {
    /// Their first byte in the volume.
    pub offset_bytes: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// The number of the node with the copy.
    pub node: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_copies_and_rate() {
        let left = Rebuild::of(8, 4 << 20, Some(16e6));
        assert_eq!((left.left_bytes, left.eta_seconds), (32 << 20, Some((32 << 20) as f64 / 16e6)));
        assert_eq!(Rebuild::of(0, 4 << 20, Some(16e6)), Rebuild { behind_copies: 0, ..Rebuild::default() });
        assert_eq!(Rebuild::of(8, 4 << 20, None).eta_seconds, None);
        assert_eq!(Rebuild::of(8, 4 << 20, Some(0.0)).eta_seconds, None);
    }

    #[test]
    fn the_schema_is_that_of_the_code() {
        let mut schema = serde_json::to_value(schemars::schema_for!(VolumesReport)).unwrap();
        schema["$id"] = "urn:flashmob:volumes:1".into();
        schema["title"] = "The volumes of a gateway, by node".into();
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/volumes-1.json");
        if std::env::var_os("ACCEPT_SCHEMA").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(published, text, "ACCEPT_SCHEMA=1 accepts it");
    }
}
