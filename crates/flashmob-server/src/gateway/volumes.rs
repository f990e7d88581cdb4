//! A gateway's volumes in detail, and the replacement of an extent that somebody gives up.

use std::sync::mpsc::SyncSender;

use flashmob_core::gateway::{CopiesStatus, MemberStatus, ReplaceError, Replaced};
use flashmob_core::units::Time;

use super::server::GatewayServer;
use crate::status::VolumeQuestion;
use crate::status::replace::{News, Refusal, Replacement};
use crate::status::report::NodeOfVolume;
use crate::status::volumes::{
    CopiesDetails, MemberDetails, NodeDetails, Rebuild, ReplaceAnswer, ReplaceRequest, SCHEMA, VolumeDetails,
    VolumesReport,
};
use crate::store::ExtentId;

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
        }
    }

    /// Tells of the replacements that the maps have durably now.
    pub(super) fn tell_recorded(&mut self) {
        for Unrecorded { news, .. } in self.unrecorded.extract_if(.., |r| self.gateway.is_recorded(r.volume, r.number))
        {
            // The receiver may have timed out.
            let _ = news.try_send(News::Recorded);
        }
    }

    fn volumes_report(&mut self, now: Time) -> VolumesReport {
        let volumes = self.report().gateway.map(|gateway| gateway.volumes).unwrap_or_default();
        let details = volumes.into_iter().enumerate().map(|(number, volume)| {
            let members = self.gateway.members_status(now, number).unwrap_or_default();
            let mut members = members.into_iter();
            VolumeDetails {
                name: volume.name,
                size_bytes: volume.size_bytes,
                copies: self.gateway.copies_status(now, number).map(copies_details),
                nodes: (0..)
                    .zip(volume.nodes)
                    .map(|(number, node)| node_details(number, node, members.next()))
                    .collect(),
            }
        });
        let volumes = details.collect();
        VolumesReport { schema: SCHEMA, version: env!("CARGO_PKG_VERSION").to_string(), volumes }
    }

    /// Returns the answer, and the volume with the number of the record that must be durable.
    fn replace(&mut self, now: Time, request: &ReplaceRequest) -> Result<(ReplaceAnswer, (usize, u64)), Refusal> {
        let no_extent = |_| Refusal::Bad("an extent is 32 hexadecimal digits".to_string());
        let extent: ExtentId = request.extent.parse().map_err(no_extent)?;
        let names: Vec<String> = self.gateway.status().volumes.into_iter().map(|volume| volume.name).collect();
        let Some(volume) = names.iter().position(|name| *name == request.volume) else {
            let text = format!("there is no volume '{}'; there are: {}", request.volume, names.join(", "));
            return Err(Refusal::Unknown(text));
        };
        let node = self.gateway.node_number(volume, request.node);
        let replaced = self.gateway.replace_extent(now, volume, request.node, Some(extent.0));
        let Replaced { given_up, copies, number, .. } = replaced.map_err(|error| match error {
            ReplaceError::NoNode { .. } => Refusal::Unknown(error.to_string()),
            _ => Refusal::Conflict(error.to_string()),
        })?;
        let given_up = ExtentId(given_up);
        log::warn!(
            "volume {}, node {}: its extent {given_up} is given up, extent {extent} takes its place; {copies} copies are made again",
            request.volume,
            request.node,
        );
        let is_named = self.memory.as_ref().zip(node).is_some_and(|(memory, node)| memory.names(node));
        let answer = ReplaceAnswer {
            given_up: given_up.to_string(),
            taken: extent.to_string(),
            copies,
            is_named_in_configuration: is_named,
            is_recorded: false,
        };
        Ok((answer, (volume, number)))
    }
}

fn copies_details(status: CopiesStatus) -> CopiesDetails {
    CopiesDetails {
        copies: status.copies,
        fewest_current: status.fewest_current,
        chunks: status.chunks,
        chunk_bytes: status.chunk_bytes,
        rebuild: Rebuild::of(status.behind_copies, status.chunk_bytes, status.rebuilt_bytes_per_s),
        map_trouble: status.map_trouble,
        deposed: status.deposed,
    }
}

fn node_details(number: usize, node: NodeOfVolume, member: Option<MemberStatus>) -> NodeDetails {
    let hex = |id: [u8; 16]| ExtentId(id).to_string();
    let size_bytes = member.as_ref().map(|member| member.size_bytes).or(node.size_bytes);
    let member = member.map(|member| MemberDetails {
        extent: member.extent_id.map(hex),
        domain: member.domain,
        copies: member.copies,
        behind: member.behind,
        doubtful: member.doubtful,
        only: member.only,
        out_seconds: member.out_for.map(|out| out.as_secs_f64()),
        offered: member.offered.map(hex),
    });
    NodeDetails { number, name: node.name, state: node.state, refusal: node.refusal, size_bytes, member }
}
