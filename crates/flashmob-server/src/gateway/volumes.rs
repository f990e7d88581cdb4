//! A gateway's volumes in detail, and what can be changed about them.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use flashmob_core::gateway::{
    BadRange, CopiesStatus, MeasureError, MemberStatus, PassStatus, PauseError, ReplaceError, Replaced, ScrubStatus,
};
use flashmob_core::units::Time;

use super::accept::log_accepted;
use super::server::GatewayServer;
use crate::status::VolumeQuestion;
use crate::status::measure::{MeasureAnswer, MeasureRequest, MeasurementReport};
use crate::status::replace::{News, Refusal, Replacement};
use crate::status::report::NodeOfVolume;
use crate::status::volumes::{
    BadPlace, CopiesDetails, MemberDetails, NodeDetails, PassDetails, PauseAnswer, PauseRequest, Rebuild,
    ReplaceAnswer, ReplaceRequest, SCHEMA, ScrubAnswer, ScrubDetails, ScrubRequest, VolumeDetails, VolumesReport,
};
use crate::store::ExtentId;

/// How long nodes have to show that they are alive before another is paused: less than whoever asked waits.
const PAUSE_PATIENCE: Duration = Duration::from_millis(1_500);

/// How often is looked whether they have: a large map takes some milliseconds.
const PAUSE_EVERY: Duration = Duration::from_millis(50);

/// A replacement that the map does not have durably yet.
#[derive(Debug)]
pub(super) struct Unrecorded {
    volume: usize,
    /// The number of its record.
    number: u64,
    news: SyncSender<News>,
}

impl GatewayServer {
    pub(super) fn answer_about_volumes(&mut self, now: Time, question: VolumeQuestion) {
        // The receiver may have timed out.
        match question {
            VolumeQuestion::Show(answer) => drop(answer.try_send(self.volumes_report(now))),
            VolumeQuestion::Replace(Replacement { request, claim, news }) => {
                if !claim.take() {
                    return;
                }
                match self.replace(now, &request) {
                    Ok((answer, (volume, number))) => {
                        let _ = news.try_send(News::Decided(answer));
                        self.unrecorded.push(Unrecorded { volume, number, news });
                    }
                    Err(refusal) => drop(news.try_send(News::Refused(refusal))),
                }
            }
            VolumeQuestion::Scrub(asked) => asked.carry_out(|request| self.scrub(now, request)),
            VolumeQuestion::Pause(asked) => {
                if asked.claim.take() {
                    self.pauses.push((asked, now + PAUSE_PATIENCE));
                    self.try_pauses(now);
                }
            }
            VolumeQuestion::Measure(asked) => asked.carry_out(|request| self.measure(now, request)),
            VolumeQuestion::Move(asked) => {
                if asked.claim.take() {
                    self.move_copies(now, asked);
                }
            }
            VolumeQuestion::Add(asked) => {
                if asked.claim.take() {
                    let decided = self.add_node(now, &asked.request);
                    self.answer_recorded(decided, asked.answer);
                }
            }
            VolumeQuestion::AcceptLoss(asked) => {
                if asked.claim.take() {
                    let decided = self.accept_loss(now, &asked.request);
                    self.answer_recorded(decided, asked.answer);
                }
            }
            VolumeQuestion::Resync(asked) => {
                if asked.claim.take() {
                    self.resyncs.push((asked, now + PAUSE_PATIENCE));
                    self.try_pauses(now);
                }
            }
            VolumeQuestion::Resize(asked) => {
                if asked.claim.take() {
                    self.resize(now, asked);
                }
            }
            VolumeQuestion::Remove(asked) => {
                if asked.claim.take() {
                    let decided = self.remove_node(now, &asked.request);
                    self.answer_recorded(decided, asked.answer);
                }
            }
        }
    }

    /// Tells of the replacements that the maps have durably now.
    pub(super) fn tell_recorded(&mut self) {
        for Unrecorded { news, .. } in self.unrecorded.extract_if(.., |r| self.gateway.is_recorded(r.volume, r.number))
        {
            // The receiver may have timed out.
            let _ = news.try_send(News::Recorded);
        }
        self.tell_recorded_changes();
    }

    fn volumes_report(&mut self, now: Time) -> VolumesReport {
        let volumes = self.report().gateway.map(|gateway| gateway.volumes).unwrap_or_default();
        let details = volumes.into_iter().enumerate().map(|(number, volume)| {
            let members = self.gateway.members_status(now, number).unwrap_or_default();
            let status = self.gateway.scrub_status(now, number).unwrap_or_default();
            let mut members = members.into_iter().zip(status.verify.iter().map(pass_details));
            let copies = self.gateway.copies_status(now, number).map(|copies| {
                let bad = self.gateway.bad_ranges(number).into_iter().map(bad_place).collect();
                copies_details(copies, &status, bad, self.maps.trouble(number))
            });
            VolumeDetails {
                name: volume.name,
                size_bytes: volume.size_bytes,
                copies,
                nodes: (0..)
                    .zip(volume.nodes)
                    .map(|(number, node)| node_details(number, node, members.next()))
                    .collect(),
            }
        });
        let volumes = details.collect();
        let measurement = self.measurement(now);
        VolumesReport { schema: SCHEMA, version: env!("CARGO_PKG_VERSION").to_string(), volumes, measurement }
    }

    /// The place of a volume among all.
    pub(super) fn volume_named(&self, name: &str) -> Result<usize, Refusal> {
        let names: Vec<String> = self.gateway.status().volumes.into_iter().map(|volume| volume.name).collect();
        names
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| Refusal::Unknown(format!("there is no volume '{name}'; there are: {}", names.join(", "))))
    }

    fn scrub(&mut self, now: Time, request: &ScrubRequest) -> Result<ScrubAnswer, Refusal> {
        if request.stop && request.now {
            return Err(Refusal::Bad("a scrub is begun now, or stopped".to_string()));
        }
        let volume = self.volume_named(&request.volume)?;
        let done = match request.stop {
            true => self.gateway.stop_scrub(now, volume),
            false => self.gateway.begin_scrub(now, volume, request.now),
        };
        done.map_err(|error| Refusal::Conflict(error.to_string()))?;
        let is_running = self.gateway.scrub_status(now, volume).is_some_and(|status| status.compare.is_running);
        log::info!("volume {}: {}", request.volume, if request.stop { "scrubs are stopped" } else { "it is scrubbed" });
        Ok(ScrubAnswer { volume: request.volume.clone(), is_running })
    }

    /// Pauses nodes that are to be paused, and puts copies behind that are to be made equal, unless others have yet to show that they are alive.
    pub(super) fn try_pauses(&mut self, now: Time) {
        self.pauses_again = now + PAUSE_EVERY;
        for (asked, until) in std::mem::take(&mut self.pauses) {
            let result = self.pause(now, &asked.request);
            if now < until && matches!(result, Err((_, true))) {
                self.pauses.push((asked, until));
            } else {
                // The receiver may have timed out.
                let _ = asked.answer.try_send(result.map_err(|(refusal, _)| refusal));
            }
        }
        for (asked, until) in std::mem::take(&mut self.resyncs) {
            let decided = self.resync(now, &asked.request);
            if now < until && matches!(decided, Err((_, true))) {
                self.resyncs.push((asked, until));
            } else {
                self.answer_recorded(decided.map_err(|(refusal, _)| refusal), asked.answer);
            }
        }
    }

    /// When that is to be done again.
    pub(super) fn pauses_due(&self) -> Option<Time> {
        (!self.pauses.is_empty() || !self.resyncs.is_empty()).then_some(self.pauses_again)
    }

    /// Of a refusal also whether it may be another soon.
    fn pause(&mut self, now: Time, request: &PauseRequest) -> Result<PauseAnswer, (Refusal, bool)> {
        let volume = self.volume_named(&request.volume).map_err(|refusal| (refusal, false))?;
        let paused = self.gateway.pause_node(now, volume, request.node, !request.resume);
        paused.map_err(|error| match error {
            PauseError::NoNode { .. } => (Refusal::Unknown(error.to_string()), false),
            PauseError::NotHeard(_) => (Refusal::Conflict(error.to_string()), true),
            _ => (Refusal::Conflict(error.to_string()), false),
        })?;
        let node = self.gateway.node_number(volume, request.node);
        let is_paused = node.is_some_and(|node| self.gateway.is_paused(node));
        Ok(PauseAnswer { volume: request.volume.clone(), node: request.node, is_paused })
    }

    fn measure(&mut self, now: Time, request: &MeasureRequest) -> Result<MeasureAnswer, Refusal> {
        let volume = self.volume_named(&request.volume)?;
        let begun = self.gateway.measure_node(now, volume, request.node, request.aspect.into());
        begun.map_err(|error| match error {
            MeasureError::NoNode { .. } => Refusal::Unknown(error.to_string()),
            _ => Refusal::Conflict(error.to_string()),
        })?;
        let left = self.gateway.measurement(now).and_then(|measurement| measurement.left).unwrap_or_default();
        Ok(MeasureAnswer { ends_in_seconds: left.as_secs_f64() })
    }

    /// The measurement of a node that is under way, or the last one.
    pub(super) fn measurement(&self, now: Time) -> Option<MeasurementReport> {
        let measurement = self.gateway.measurement(now)?;
        let place = self.gateway.place_of(measurement.node)?;
        Some(MeasurementReport::of(&measurement, place))
    }

    /// Returns the answer, and the volume with the number of the record that must be durable.
    fn replace(&mut self, now: Time, request: &ReplaceRequest) -> Result<(ReplaceAnswer, (usize, u64)), Refusal> {
        let no_extent = |_| Refusal::Bad("an extent is 32 hexadecimal digits".to_string());
        let extent: ExtentId = request.extent.parse().map_err(no_extent)?;
        let volume = self.volume_named(&request.volume)?;
        let node = self.gateway.node_number(volume, request.node);
        let replaced = self.gateway.replace_extent(now, volume, request.node, Some(extent.0), request.accept_loss);
        let Replaced { given_up, copies, number, accepted, .. } = replaced.map_err(|error| match error {
            ReplaceError::NoNode { .. } => Refusal::Unknown(error.to_string()),
            _ => Refusal::Conflict(error.to_string()),
        })?;
        let given_up = ExtentId(given_up);
        log::warn!(
            "volume {}, node {}: its extent {given_up} is given up, extent {extent} takes its place; {copies} copies are made again",
            request.volume,
            request.node,
        );
        let (accepted_ranges, unlisted_chunks) = self.ranges_of(volume, &accepted);
        let accepted_chunks = accepted.chunks.len() as u32;
        if accepted_chunks > 0 {
            log_accepted(&request.volume, &accepted_ranges, accepted_chunks);
        }
        let is_named = self.memory.as_ref().zip(node).is_some_and(|(memory, node)| memory.names(node));
        let answer = ReplaceAnswer {
            given_up: given_up.to_string(),
            taken: extent.to_string(),
            copies,
            is_named_in_configuration: is_named,
            is_recorded: false,
            accepted_chunks,
            accepted_ranges,
            unlisted_chunks,
        };
        Ok((answer, (volume, number)))
    }
}

fn pass_details(status: &PassStatus) -> PassDetails {
    let seconds = |time: Duration| time.as_secs_f64();
    PassDetails {
        is_running: status.is_running,
        is_now: status.is_forced,
        done_bytes: status.done_bytes,
        total_bytes: status.total_bytes,
        eta_seconds: status.eta.map(seconds),
        waits: status.waits.clone(),
        done_seconds_ago: status.done_ago.map(seconds),
        due_in_seconds: status.due_in.map(seconds),
        found_blocks: status.found,
        left_out: status.left_out,
        behind_copies: status.behind,
    }
}

fn bad_place((offset_bytes, bytes, range, members): (u64, u64, BadRange, Vec<u16>)) -> BadPlace {
    let nodes = members.into_iter().map(usize::from).collect();
    BadPlace { offset_bytes, bytes, flaw: range.first.flaw.name().to_string(), nodes }
}

fn copies_details(
    status: CopiesStatus,
    scrub: &ScrubStatus,
    bad: Vec<BadPlace>,
    trouble: Option<String>,
) -> CopiesDetails {
    CopiesDetails {
        scrub: ScrubDetails {
            compare: pass_details(&scrub.compare),
            corrupt_blocks: status.counters.scrub_corrupt,
            mended_blocks: status.counters.mended,
            mending_chunks: scrub.mending,
            bad,
            unlisted_blocks: scrub.unlisted_blocks,
        },
        copies: status.copies,
        fewest_current: status.fewest_current,
        chunks: status.chunks,
        chunk_bytes: status.chunk_bytes,
        rebuild: Rebuild::of(status.behind_copies, status.chunk_bytes, status.rebuilt_bytes_per_s),
        moves: super::moves::details(&status.moves, status.chunk_bytes),
        map_trouble: trouble.or(status.map_trouble),
        waits_for: status.waits_for.map(super::report::waits_for),
        deposed: status.deposed,
    }
}

fn node_details(number: usize, node: NodeOfVolume, member: Option<(MemberStatus, PassDetails)>) -> NodeDetails {
    let hex = |id: [u8; 16]| ExtentId(id).to_string();
    let size_bytes = member.as_ref().map(|(member, _)| member.size_bytes).or(node.size_bytes);
    let member = member.map(|(member, scrub)| MemberDetails {
        extent: member.extent_id.map(hex),
        domain: member.domain,
        copies: member.copies,
        behind: member.behind,
        doubtful: member.doubtful,
        only: member.only,
        acceptable_chunks: member.loss.as_ref().and_then(|loss| loss.as_ref().ok().copied()),
        not_acceptable: member.loss.and_then(Result::err),
        slots: member.slots,
        is_joining: member.is_joining,
        holds_data: member.holds_data,
        is_leaving: member.is_leaving,
        is_drained: member.is_drained,
        is_paused: member.is_paused,
        out_seconds: member.out_for.map(|out| out.as_secs_f64()),
        offered: member.offered.map(hex),
        scrub,
    });
    let device_fails = node.failures.words();
    NodeDetails { number, name: node.name, state: node.state, refusal: node.refusal, size_bytes, device_fails, member }
}
