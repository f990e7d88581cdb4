//! A result under a unique name, and its points in groups that may be compared.

use std::collections::HashSet;

use flashmob_results::capture::Capture;
use flashmob_results::cluster::Cluster;
use flashmob_results::device::Place;
use flashmob_results::disk::{Cache, Engine, File, Model, Operation, Parameters, Pattern, Point};
use flashmob_results::net::Net;
use flashmob_results::trace::Trace;
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, EMULATED};

use crate::Input;
use crate::groups::grouped;
use crate::stats::usable;
use crate::words::plain;

/// Longest name in tables and figures; longer labels are cut.
const NAME_CHARACTERS_MAX: usize = 60;

/// Suffixes of the names of modelled results.
const MODELLED: [&str; 3] = [" (modelled)", " (lab, modelled)", " (simulated)"];
/// Model names of virtual disks, in lower case: QEMU, VirtualBox, VMware, Hyper-V, Google and Amazon.
const VIRTUAL_MODELS: [&str; 6] =
    ["qemu", "vbox", "vmware", "virtual disk", "persistentdisk", "amazon elastic block store"];

/// One result of a report.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Unique name on the page.
    pub name: String,
    /// The file that it came from, as given.
    pub file: String,
    /// Its contents.
    pub document: Document,
}

/// The kind of storage medium, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    Flash,
    Rotational,
    Unknown,
}

/// Parameters that must be equal for rates to be compared over threads or block sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub cache: Cache,
    pub scheduler: Option<String>,
    /// Range of the file that offsets are drawn from.
    pub range_bytes: u64,
}

/// Assigns unique names: the document's own, with the file's stem where two are equal, and a number where that is not enough.
pub(crate) fn named(inputs: Vec<Input>) -> Vec<Entry> {
    let own: Vec<String> = inputs.iter().map(|i| own_name(&i.document)).collect();
    let mut taken = HashSet::new();
    let mut entries = Vec::new();
    for (input, base) in inputs.into_iter().zip(&own) {
        let stem = input.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let alone = own.iter().filter(|other| *other == base).count() == 1;
        let wanted = if alone { base.clone() } else { format!("{base} · {}", plain(&stem, NAME_CHARACTERS_MAX)) };
        let name = (1u32..)
            .map(|n| if n == 1 { wanted.clone() } else { format!("{wanted} ({n})") })
            .find(|name| !taken.contains(name))
            .unwrap_or_default();
        taken.insert(name.clone());
        entries.push(Entry { name, file: input.path.display().to_string(), document: input.document });
    }
    entries
}

/// The document's own name; a long label is cut so that the suffix for modelled results fits.
fn own_name(document: &Document) -> String {
    let name = document.name();
    if let Some(bare) = name.strip_suffix(EMULATED).filter(|_| document.is_emulated()) {
        return format!("{}{EMULATED}", shortened(bare, NAME_CHARACTERS_MAX - EMULATED.len(), document));
    }
    shortened(&name, NAME_CHARACTERS_MAX, document)
}

fn shortened(name: &str, characters_max: usize, document: &Document) -> String {
    let ends = MODELLED.iter().filter(|_| document.is_modelled());
    match ends.filter_map(|end| Some((name.strip_suffix(end)?, end))).next() {
        Some((bare, end)) => format!("{}{end}", plain(bare, characters_max.saturating_sub(end.len()))),
        None => plain(name, characters_max),
    }
}

/// A virtual disk: whether it is rotating is a default of the hypervisor and says nothing about the real medium.
fn is_virtual(place: &Place) -> bool {
    let name = place.disk.as_deref().unwrap_or_default();
    let model = place.disk_model.as_deref().unwrap_or_default().to_ascii_lowercase();
    name.starts_with("vd") || name.starts_with("xvd") || VIRTUAL_MODELS.iter().any(|words| model.contains(words))
}

impl Entry {
    pub(crate) fn is_device(&self) -> bool {
        self.document.disk().is_some()
    }

    /// Measured on Android: on a phone or tablet, or on an emulator of one.
    pub(crate) fn is_android(&self) -> bool {
        self.document.device.system.as_deref().is_some_and(|system| system.starts_with("Android"))
    }

    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        self.document.cluster()
    }

    pub(crate) fn net(&self) -> Option<&Net> {
        self.document.net()
    }

    pub(crate) fn capture(&self) -> Option<&Capture> {
        self.document.capture()
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.document.trace()
    }

    /// True for a measured or a captured network.
    pub(crate) fn is_network(&self) -> bool {
        self.net().is_some() || self.capture().is_some()
    }

    /// The points of a device; empty for all other kinds of results.
    pub(crate) fn points(&self) -> &[Point] {
        self.document.disk().map_or(&[], |disk| &disk.points)
    }

    /// The measured file, unless the device was modelled.
    pub(crate) fn file(&self) -> Option<&File> {
        self.document.disk()?.file.as_ref()
    }

    /// The model that replaced the device, if there was one.
    pub(crate) fn model(&self) -> Option<&Model> {
        self.document.disk()?.model.as_ref()
    }

    /// All warnings about points, each with the name of its point.
    pub(crate) fn point_warnings(&self) -> Vec<(String, &Warning)> {
        let of_device = self.points().iter().map(|p| (crate::words::parameters(&p.parameters), &p.warnings));
        let of_cluster = self.cluster().into_iter().flat_map(|c| &c.points);
        let of_cluster = of_cluster.map(|p| (crate::words::combination(&p.parameters), &p.warnings));
        let of_net = self.net().into_iter().flat_map(|net| &net.points);
        let of_net = of_net.map(|p| (crate::words::crossing(&p.parameters), &p.warnings));
        let of_trace = self.trace().into_iter().flat_map(|trace| &trace.runs);
        let of_trace = of_trace.map(|run| (run.name.clone(), &run.warnings));
        let all = of_device.chain(of_cluster).chain(of_net).chain(of_trace);
        all.flat_map(|(name, warnings)| warnings.iter().map(move |warning| (plain(&name, 120), warning))).collect()
    }

    /// The medium as reported by the kernel, or that of the model. Unknown for virtual disks: virtio reports every disk as rotating.
    pub(crate) fn medium(&self) -> Medium {
        if let Some(model) = self.model() {
            return if model.profile == "hdd" { Medium::Rotational } else { Medium::Flash };
        }
        match self.file().filter(|file| !is_virtual(&file.place)).and_then(|file| file.place.rotational) {
            Some(true) => Medium::Rotational,
            Some(false) => Medium::Flash,
            None => Medium::Unknown,
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        self.file().is_some_and(|file| is_virtual(&file.place))
    }

    /// Reads with one outstanding request per thread that had to reach the medium and were answered:
    /// claims about flash use no others.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &Point> {
        self.points().iter().filter(|point| {
            let p = &point.parameters;
            p.operation == Operation::Read
                && p.cache != Cache::Warm
                && p.engine == Engine::Pread
                && p.depth <= 1
                && has_rate(point)
        })
    }

    /// The random reads of 4 KiB by one thread, to compare devices by.
    pub(crate) fn one_thread(&self) -> Option<&Point> {
        let points = self.random_reads().into_iter().flat_map(|(_, points)| points);
        points.into_iter().find(|p| p.parameters.block_bytes == 4_096 && p.parameters.threads == 1)
    }

    /// Random reads, in groups within which only block size and threads differ; each sorted by block size and threads.
    pub(crate) fn random_reads(&self) -> Vec<(Setting, Vec<&Point>)> {
        let random = self.reads().filter(|point| point.parameters.pattern == Pattern::Random);
        let mut groups = grouped(random, |point| Setting::of(&point.parameters));
        for (_, points) in &mut groups {
            points.sort_by_key(|p| (p.parameters.block_bytes, p.parameters.threads));
            // Measured twice: the first counts.
            points.dedup_by_key(|p| (p.parameters.block_bytes, p.parameters.threads));
        }
        groups
    }
}

impl Setting {
    pub fn of(p: &Parameters) -> Setting {
        Setting { cache: p.cache, scheduler: p.scheduler.clone(), range_bytes: p.range_bytes }
    }

    /// In words, to tell groups of one entry apart.
    pub fn words(&self) -> String {
        let mut text = match self.cache {
            Cache::Direct => "direct".to_string(),
            Cache::Cold | Cache::Warm => format!("page cache {}", self.cache),
        };
        if let Some(scheduler) = &self.scheduler {
            text.push_str(&format!(", {}", plain(scheduler, 24)));
        }
        format!("{text}, range {}", crate::words::bytes(self.range_bytes))
    }
}

/// True if the point has a finite rate above zero.
pub(crate) fn has_rate(point: &Point) -> bool {
    point.summary.repetitions > 0 && usable(&point.summary.requests_per_second)
}

/// The warnings that make a rate doubtful. Few samples affect percentiles only; modelled, emulated and shortened apply to the whole result.
pub(crate) fn doubts(warnings: &[Warning]) -> impl Iterator<Item = Code> + '_ {
    let codes = warnings.iter().map(|w| w.code);
    codes.filter(|code| !matches!(code, Code::FewSamples | Code::Modelled | Code::Emulated | Code::Scaled))
}

/// True if these warnings make a point's rate doubtful.
pub(crate) fn is_doubtful(warnings: &[Warning]) -> bool {
    doubts(warnings).next().is_some()
}
