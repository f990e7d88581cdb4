//! The planner's answer in its published format.

use flashmob_lab::air;
use flashmob_lab::cluster::Settings;
use flashmob_lab::flash::ProfileError;
use flashmob_lab::plan::relief;
use flashmob_lab::plan::{self, Method};
use flashmob_results::cluster::{AirModel, Attachment, Parameters};
use flashmob_results::plan::{Busy, FORMAT, FORMAT_VERSION, Gain, Plan, Remedy, Resource};

use crate::commands::cluster::{figures, sweep};
use crate::lab::status::order_of;

/// The planner's answer for a cluster.
///
/// # Errors
/// The flash profile is invalid.
pub fn of(settings: &Settings, answer: &plan::Plan) -> Result<Plan, ProfileError> {
    let parameters = Parameters {
        nodes: settings.loaded_nodes,
        links: settings.links.into(),
        batch: sweep::batch_of(settings.batch),
        block_bytes: settings.block_bytes,
        read_percent: settings.read_percent,
        outstanding: settings.outstanding,
        no_io: settings.flash.is_none(),
        order: settings.flash.map(|_| order_of(settings.order)),
        air_load_percent: None,
    };
    let points = std::slice::from_ref(&parameters);
    let flash =
        settings.flash.map(|profile| figures::flash_model(&profile, settings.extent_bytes, points)).transpose()?;
    let simulated = &answer.forecast.simulated;
    let rate = answer.forecast.requests_per_second;
    let (method, formula) = match answer.forecast.method {
        Method::ClosedForm(name) => (flashmob_results::plan::Method::ClosedForm, Some(name.to_string())),
        Method::Simulated => (flashmob_results::plan::Method::Simulated, None),
    };
    let nanoseconds = |part| u64::try_from(simulated.latency(part).as_nanos()).unwrap_or(u64::MAX);
    Ok(Plan {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        program_version: env!("CARGO_PKG_VERSION").into(),
        modelled: true,
        seed: settings.seed,
        air: AirModel {
            profile: settings.air.name.clone(),
            description: settings.air.description.clone(),
            gateway: match settings.gateway {
                air::Attachment::Wireless => Attachment::Wireless,
                air::Attachment::Wired => Attachment::Wired,
            },
            cells: settings.cells,
        },
        flash,
        extent_bytes: settings.extent_bytes,
        parameters,
        requests_per_second: rate,
        method,
        formula,
        spread: simulated.spread,
        p50_ns: nanoseconds(0.5),
        p99_ns: nanoseconds(0.99),
        frames_per_request: simulated.frames_per_request,
        requests_per_batch: simulated.requests_per_batch,
        flash_fraction: answer.flash_limit.filter(|limit| *limit > 0.0).map(|limit| rate / limit),
        busy: Busy { air: simulated.air_busy, flash: simulated.flash_busy, gateway_processor: simulated.gateway_busy },
        bottleneck: answer.blame.bottleneck.iter().map(|resource| resource_of(*resource)).collect(),
        gains: answer
            .blame
            .gains
            .iter()
            .map(|&(resource, factor)| Gain { resource: resource_of(resource), factor })
            .collect(),
        remedies: answer.remedies.iter().map(|r| Remedy { what: r.what.clone(), factor: r.factor }).collect(),
    })
}

fn resource_of(resource: relief::Resource) -> Resource {
    match resource {
        relief::Resource::Flash => Resource::Flash,
        relief::Resource::Air => Resource::Air,
        relief::Resource::GatewayProcessor => Resource::GatewayProcessor,
        relief::Resource::NodeProcessors => Resource::NodeProcessors,
        relief::Resource::Outstanding => Resource::Outstanding,
    }
}
