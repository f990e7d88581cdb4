//! The objects of a session in the kernel: instances, probes, programs. They are removed on drop.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

use flashmob_results::trace::{Layer, Source};

use super::captured::{Capture, Pages};
use super::error::CaptureError;
use super::guardian::Guardian;
use super::instance::Instance;
use super::names::{self, Names};
use super::owner::{self, Owner};
use super::reader::Reader;
use super::session::{NAMES, SQLITE};
use super::sources::Tally;
use super::sqlite::{self, Probes};
use super::tracefs::{self, Tracefs};
use super::{Event, Scope, Wanted, limits};
use crate::format::{EventFormat, PageLayout};

/// Names of the instances: one limited to the traced threads, one for all threads.
pub const INSTANCES: [&str; 2] = ["threads", "devices"];
/// The event of writes to the session's marker, always captured.
const MARKER: (&str, &str) = ("ftrace", "print");

pub type Files = Vec<(u32, File)>;

/// The kernel's format files, by their paths below `events`.
pub type Texts = BTreeMap<String, String>;

#[derive(Debug)]
pub struct Tracing {
    // In drop order: an instance cannot be removed while it is read, nor a probe while an instance has it enabled; the guardian comes last.
    pub reader: Option<Reader>,
    names: Option<Names>,
    instances: Vec<Instance>,
    probes: Option<Probes>,
    _guardian: Option<Guardian>,
    tracefs: Tracefs,
    owner: Owner,
    pub marker: PathBuf,
    formats: Vec<EventFormat>,
    texts: Texts,
    pub layout: PageLayout,
    /// No threads were given when the session was opened.
    awaits_threads: bool,
}

impl Tracing {
    /// Creates the instances and opens their buffers. The error is a message with its remedy.
    pub fn prepare(tracefs: Tracefs, wanted: &Wanted) -> Result<(Tracing, Files), String> {
        owner::remove_left_overs(&tracefs);
        let owner = Owner::new();
        let guardian = Guardian::start(&tracefs, &owner);
        let guardian =
            guardian.inspect_err(|error| log::warn!("if this process is killed, only the next run cleans up: {error}"));
        let is_of_devices = |event: &Event| event.scope != Scope::Threads;
        let count = if wanted.events.iter().any(is_of_devices) { 2 } else { 1 };
        let buffer_bytes = limits::buffer_bytes(wanted, count);
        let make = |name: &&str| Instance::create(&tracefs, &owner.instance(name), buffer_bytes);
        let instances = INSTANCES[..count].iter().map(make).collect::<Result<Vec<_>, String>>()?;
        let mut texts = Texts::new();
        for name in ["header_page", "header_event"] {
            let path = instances[0].path().join("events").join(name);
            // Older kernels have it in the top-level folder only.
            let text = tracefs::read(&path).or_else(|_| tracefs::read(&tracefs.root().join("events").join(name)));
            texts.insert(name.into(), text.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        let layout = PageLayout::parse(&texts["header_page"]).map_err(|error| error.to_string())?;
        PageLayout::check_events(&texts["header_event"]).map_err(|error| error.to_string())?;
        let mut files = Vec::new();
        for instance in &instances {
            for cpu in instance.cpus() {
                files.push((cpu, instance.raw(cpu)?));
            }
        }
        let marker = instances[0].path().join("trace_marker");
        let tracing = Tracing {
            reader: None,
            names: None,
            instances,
            probes: None,
            _guardian: guardian.ok(),
            tracefs,
            owner,
            marker,
            formats: Vec::new(),
            texts,
            layout,
            awaits_threads: false,
        };
        Ok((tracing, files))
    }

    fn threads(&self) -> &Instance {
        &self.instances[0]
    }

    fn of(&self, scope: Scope) -> &Instance {
        &self.instances[usize::from(scope != Scope::Threads)]
    }

    /// Enables the wanted events that the kernel has.
    pub fn enable(&mut self, wanted: &Wanted) -> Vec<Source> {
        let mut tally = Tally::default();
        if let Err(why) = self.learn(MARKER.0, MARKER.0, MARKER.1) {
            log::warn!("lines written to the marker cannot be read: {why}");
        }
        self.awaits_threads = wanted.follow_children && wanted.threads.is_empty();
        let is_following = self.follow_wanted(wanted);
        // Before events of system calls, so that a name precedes the exit of its call.
        let names = wanted.names.then(|| is_following.clone().and_then(|()| self.enable_names()));
        for event in &wanted.events {
            let (system, name) = (event.system.as_str(), event.name.as_str());
            if !self.of(event.scope).has(system, name) {
                tally.missing(system, name);
                continue;
            }
            if let (Scope::Threads, Err(why)) = (event.scope, &is_following) {
                tally.note(system, why.clone());
                continue;
            }
            let enabled = self.learn(system, system, name).and_then(|()| {
                let filter = self.filter(event, wanted, &mut tally);
                self.of(event.scope).enable(system, name, filter.as_deref())
            });
            match enabled {
                Ok(()) => tally.used(system),
                Err(why) => tally.note(system, format!("{name}: {why}")),
            }
        }
        let mut sources = tally.sources();
        let mut add = |name: &str, layer, why: Result<Vec<String>, String>| {
            let (is_used, why) = why.map_or_else(|why| (false, vec![why]), |why| (true, why));
            let why = (!why.is_empty()).then(|| why.join("; "));
            sources.push(Source { name: name.into(), layers: vec![layer], is_used, why });
        };
        if let Some(enabled) = names {
            add(NAMES, Layer::SystemCall, enabled.map(|()| Vec::new()));
        }
        if !wanted.sqlite.is_empty() {
            let enabled = is_following.and_then(|()| self.enable_sqlite(&wanted.sqlite));
            add(SQLITE, Layer::Sqlite, enabled);
        }
        sources
    }

    /// Limits the first instance to the wanted threads.
    fn follow_wanted(&self, wanted: &Wanted) -> Result<(), String> {
        if wanted.follow_children {
            let why = "the kernel cannot follow children (options/event-fork, Linux 4.7), so no thread is traced";
            self.threads().set("options/event-fork", "1").map_err(|error| format!("{why}: {error}"))?;
        }
        if wanted.follow_children && wanted.threads.is_empty() {
            // They are added by `follow`.
            return Ok(());
        }
        let mut result = Err("no threads to trace were given".to_string());
        for thread in limits::threads(wanted) {
            match self.threads().add_thread(thread) {
                Ok(()) => result = Ok(()),
                Err(error) if result.is_err() => {
                    result = Err(format!("thread {thread} cannot be followed: {}", tracefs::words(&error)));
                }
                Err(error) => log::debug!("thread {thread} cannot be followed: {error}"),
            }
        }
        result
    }

    pub fn follow(&self, thread: u32) -> Result<(), CaptureError> {
        let path = self.threads().path().join("set_event_pid");
        self.threads().add_thread(thread).map_err(|error| CaptureError::io(&path, error))
    }

    /// Reads an event's layout, once. In the capture its system is called `shown`.
    fn learn(&mut self, shown: &str, system: &str, name: &str) -> Result<(), String> {
        let text = self.threads().format_text(system, name)?;
        let format = EventFormat::parse(shown, &text).map_err(|error| error.to_string())?;
        if !self.formats.iter().any(|known| known.id == format.id) {
            self.texts.insert(format!("{shown}/{name}/{}", format.id), text);
            self.formats.push(format);
        }
        Ok(())
    }

    /// The filter of an event, in the kernel's syntax.
    fn filter(&self, event: &Event, wanted: &Wanted, tally: &mut Tally) -> Option<String> {
        let own = event.filter.as_deref().filter(|filter| !filter.trim().is_empty());
        if event.scope != Scope::Devices || wanted.devices.is_empty() {
            return own.map(str::to_string);
        }
        let format = self.formats.iter().find(|format| format.system == event.system && format.name == event.name)?;
        let Some(field) = ["dev", "s_dev"].into_iter().find(|name| format.field(name).is_some()) else {
            tally.note(
                &event.system,
                format!("{} has no device field, so events of all devices are included", event.name),
            );
            return own.map(str::to_string);
        };
        let devices: Vec<String> = wanted.devices.iter().map(|device| format!("{field} == {device}")).collect();
        let devices = devices.join(" || ");
        Some(own.map_or_else(|| devices.clone(), |own| format!("({own}) && ({devices})")))
    }

    fn enable_names(&mut self) -> Result<(), String> {
        let (system, name) = names::EVENT;
        if !self.threads().has(system, name) {
            return Err(format!("the kernel lacks the event {system}:{name}; Linux 5.9 with eBPF has it"));
        }
        self.learn(system, system, name)?;
        self.threads().enable(system, name, None)?;
        self.names = Some(Names::attach(&self.tracefs)?);
        Ok(())
    }

    /// Returns what cannot be probed, with reasons; an error if nothing can.
    fn enable_sqlite(&mut self, files: &[PathBuf]) -> Result<Vec<String>, String> {
        let (probes, mut why) = Probes::place(&self.tracefs, &self.owner, files);
        let mut used = 0;
        for (group, name) in &probes.events {
            let enabled =
                self.learn(sqlite::SYSTEM, group, name).and_then(|()| self.threads().enable(group, name, None));
            match enabled {
                Ok(()) => used += 1,
                Err(error) => why.push(format!("{name}: {error}")),
            }
        }
        self.probes = Some(probes);
        if used > 0 { Ok(why) } else { Err(why.join("; ")) }
    }

    /// Switches tracing on ("1") or off ("0").
    pub fn switch(&self, value: &str) -> Result<(), CaptureError> {
        for instance in &self.instances {
            // Without a thread to follow it would trace all threads.
            let is_waiting = self.awaits_threads && std::ptr::eq(instance, self.threads());
            if is_waiting && value == "1" && !instance.follows_any() {
                continue;
            }
            let path = instance.path().join("tracing_on");
            tracefs::write(&path, value).map_err(|error| CaptureError::io(&path, error))?;
        }
        Ok(())
    }

    /// Stops tracing and reads the rest of the buffers.
    pub fn finish(mut self) -> Capture {
        if let Err(error) = self.switch("0") {
            log::warn!("tracing cannot be stopped while the buffers are read: {error}");
        }
        self.names = None;
        let (buffers, is_full) = self.reader.take().map(Reader::finish).unwrap_or_default();
        let mut buffers = buffers.into_iter();
        let (formats, texts) = (std::mem::take(&mut self.formats), std::mem::take(&mut self.texts));
        let mut capture = Capture { formats, texts, ..Capture::default() };
        for (name, instance) in INSTANCES.into_iter().zip(&self.instances) {
            capture.losses.buffer_bytes = instance.buffer_bytes();
            for cpu in instance.cpus() {
                let stats = instance.stats(cpu);
                capture.losses.lost += stats.lost + stats.unread;
                capture.is_memory_full |= is_full && stats.lost + stats.unread > 0;
                let Some(buffer) = buffers.next() else { break };
                let (cpu, layout, chunks) = (buffer.cpu, self.layout, buffer.pages);
                capture.pages.push(Pages { instance: name.to_string(), cpu, layout, chunks });
            }
        }
        capture
    }
}
