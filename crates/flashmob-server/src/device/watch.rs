//! The thread that watches the device: every two seconds while the node works, every half minute while it is idle. It wakes
//! the node's loop only for changes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use flashmob_core::condition::Condition;
use flashmob_host::place::locate_below;
use flashmob_host::power::{Power, power};

use super::limits::{Beside, Limits};
use super::pauses::{Cause, LATE_MIN, Moment, Pauses, gap};
use super::space::space;
use super::state_file;
use crate::net::Wake;

/// Interval of looks at the device while the node works.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval of looks at the clocks, so that a pause is known to a second.
const TICK: Duration = Duration::from_secs(1);
/// The same while the node is idle.
const IDLE_TICK: Duration = Duration::from_secs(30);
/// The node works if a gateway sent a request within this time. Turns of the loop do not count: announcements and status
/// requests cause them as well.
const WORKS_FOR: Duration = Duration::from_secs(30);

/// Options for watching the device.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// The file that an app writes for the node.
    pub state_file: Option<PathBuf>,
    /// Limits that produce warnings.
    pub limits: Limits,
    /// The parent of `/sys`: `/`, except in tests.
    pub root: PathBuf,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions { state_file: None, limits: Limits::default(), root: PathBuf::from("/") }
    }
}

#[derive(Debug, Default)]
struct Latest {
    condition: Condition,
    pauses: Pauses,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<Latest>,
    /// Counts changes to send to gateways.
    news: AtomicU64,
    /// Counts requests of gateways.
    work: AtomicU64,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// Watches the device until it is dropped.
#[derive(Debug)]
pub struct DeviceWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    seen: u64,
    /// When all links were lost, why, and how many pauses there were by then.
    lost: Option<(Moment, String, u32)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Valid even after a panic: values are only replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceWatch {
    /// Looks once, and then periodically on a thread of its own. `data` is the node's data file.
    pub fn start(options: DeviceOptions, data: &Path, wake: Wake) -> std::io::Result<DeviceWatch> {
        let shared = Arc::new(Shared::default());
        let disk = locate_below(&options.root, data).disk;
        let mut looker = Looker {
            disk_id: disk.and_then(|disk| disk.id(&options.root)),
            options,
            data: data.to_path_buf(),
            wake,
            shared: Arc::clone(&shared),
            told: Condition::default(),
            complaint: None,
            is_sys_mute: false,
        };
        looker.look();
        let spawned = std::thread::Builder::new().name("device".to_string()).stack_size(256 * 1024);
        let thread = spawned.spawn(move || looker.run())?;
        Ok(DeviceWatch { shared, thread: Some(thread), seen: u64::MAX, lost: None })
    }

    /// To be called in each turn of the loop, with a counter of gateways' requests. Returns the condition if it has changed.
    pub fn turned(&mut self, work: u64) -> Option<Condition> {
        self.shared.work.store(work, Ordering::Relaxed);
        let news = self.shared.news.load(Ordering::Acquire);
        (std::mem::replace(&mut self.seen, news) != news).then(|| self.condition())
    }

    /// The last condition.
    #[must_use]
    pub fn condition(&self) -> Condition {
        let latest = lock(&self.shared.latest);
        let (pauses, last_pause) = (latest.pauses.count(), latest.pauses.last_told());
        Condition { pauses, last_pause, ..latest.condition.clone() }
    }

    /// Calls `tell` with the pauses.
    pub fn with_pauses<T>(&self, tell: impl FnOnce(&Pauses) -> T) -> T {
        tell(&lock(&self.shared.latest).pauses)
    }

    /// The last link was lost, and not closed by its gateway.
    pub fn links_lost(&mut self, error: &str) {
        let pauses = lock(&self.shared.latest).pauses.count();
        self.lost.get_or_insert_with(|| (Moment::now(), error.to_string(), pauses));
    }

    /// A gateway linked. If all links had been lost for a while without another explanation, that was a pause.
    pub fn linked(&mut self) {
        let Some((since, error, pauses_then)) = self.lost.take() else { return };
        let lasted = Moment::now().since_boot.saturating_sub(since.since_boot);
        let mut latest = lock(&self.shared.latest);
        if lasted >= LATE_MIN && latest.pauses.count() == pauses_then {
            let before = latest.condition.clone();
            let text = latest.pauses.note(&Cause::Network(error), lasted, &before);
            log::warn!("{text}");
            self.shared.news.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for DeviceWatch {
    fn drop(&mut self) {
        *lock(&self.shared.is_over) = true;
        self.shared.over.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends at once, unless a file in /sys blocks: then the process ends without it.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

/// How long to the next look at the clocks.
fn pause(now: Moment, worked: Moment) -> Duration {
    if now.awake.saturating_sub(worked.awake) < WORKS_FOR { TICK } else { IDLE_TICK }
}

struct Looker {
    options: DeviceOptions,
    data: PathBuf,
    /// The disk that the data is on. It is the same as long as the data is open.
    disk_id: Option<u64>,
    wake: Wake,
    shared: Arc<Shared>,
    /// The condition for which the loop was last woken.
    told: Condition,
    /// Why the app's file is ignored, while it is.
    complaint: Option<String>,
    /// `/sys` had no values. On Android every further attempt would be a line in the system's log.
    is_sys_mute: bool,
}

impl Looker {
    fn run(&mut self) {
        let mut before = Moment::now();
        let (mut looked, mut worked, mut work) = (before, before, 0);
        loop {
            let planned = pause(before, worked);
            let is_over = lock(&self.shared.is_over);
            let waited = self.shared.over.wait_timeout_while(is_over, planned, |is_over| !*is_over);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            let now = Moment::now();
            let gap = gap(before, now, planned);
            before = now;
            let work_now = self.shared.work.load(Ordering::Relaxed);
            if std::mem::replace(&mut work, work_now) != work_now {
                worked = now;
            }
            if let Some((cause, lasted)) = &gap {
                let mut latest = lock(&self.shared.latest);
                let as_it_was = latest.condition.clone();
                log::warn!("{}", latest.pauses.note(cause, *lasted, &as_it_was));
            }
            if gap.is_some() || now.since_boot.saturating_sub(looked.since_boot) >= LOOK_EVERY {
                looked = now;
                self.look();
            }
        }
    }

    /// Looks at the device, and wakes the loop after changes for gateways.
    fn look(&mut self) {
        let mut condition = self.see();
        let (before, pauses, last_pause) = {
            let mut latest = lock(&self.shared.latest);
            let before = std::mem::replace(&mut latest.condition, condition.clone());
            (before, latest.pauses.count(), latest.pauses.last_told())
        };
        if condition.crossed != before.crossed {
            let warnings = condition.warnings();
            warnings.iter().for_each(|warning| log::warn!("this device: {warning}"));
            if warnings.is_empty() {
                log::info!("this device: all limits are met again");
            }
        }
        (condition.pauses, condition.last_pause) = (pauses, last_pause);
        if condition.is_news_after(&self.told) {
            self.told = condition;
            self.shared.news.fetch_add(1, Ordering::Release);
            self.wake.wake();
        }
    }

    /// The current condition. An app's values take precedence over this program's own.
    fn see(&mut self) -> Condition {
        let told = self.state_file();
        let seen = if self.is_sys_mute { Power::default() } else { power(&self.options.root) };
        self.is_sys_mute = seen == Power::default();
        let space = space(&self.data);
        let battery_celsius = told.celsius_tenths.or(seen.battery_celsius_tenths);
        let mut condition = Condition {
            battery_percent: told.battery_percent.or(seen.battery_percent),
            charging: told.charging.or(seen.charging),
            celsius_tenths: battery_celsius.or(seen.hottest_celsius_tenths),
            screen_on: told.screen_on.or(seen.screen_on),
            free_bytes: space.free_bytes,
            unallocated_bytes: space.unallocated_bytes,
            disk_id: self.disk_id,
            ..told
        };
        let beside = Beside {
            is_of_battery: battery_celsius.is_some(),
            is_slowed_by_heat: seen.is_slowed_by_heat,
            file_system_bytes: space.file_system_bytes,
        };
        condition.crossed = self.options.limits.crossed_by(&condition, beside);
        condition
    }

    /// The values of the app's file; warns once if it is invalid.
    fn state_file(&mut self) -> Condition {
        let Some(path) = &self.options.state_file else { return Condition::default() };
        match state_file::read(path, SystemTime::now()) {
            Ok(condition) => {
                if self.complaint.take().is_some() {
                    log::info!("--device-state {}: valid again", path.display());
                }
                condition
            }
            Err(reason) => {
                if self.complaint.is_none() {
                    log::warn!("--device-state {}: ignored: {reason}", path.display());
                }
                self.complaint = Some(reason);
                Condition::default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_believed_before_the_kernel_and_what_neither_tells_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/class/power_supply/battery/type", "Battery");
        put("sys/class/power_supply/battery/capacity", "80");
        put("sys/class/power_supply/battery/status", "Charging");
        put("state.json", r#"{"battery_percent":9,"charging":false,"doze":true}"#);
        put("extent", "data");
        let options = DeviceOptions {
            state_file: Some(dir.path().join("state.json")),
            root: dir.path().to_path_buf(),
            ..DeviceOptions::default()
        };
        let data = dir.path().join("extent");
        let mut watch = DeviceWatch::start(options.clone(), &data, Wake::nobody()).unwrap();
        let condition = watch.turned(0).unwrap();
        assert_eq!((condition.battery_percent, condition.charging, condition.doze), (Some(9), Some(false), Some(true)));
        assert!(condition.crossed.low_battery && condition.free_bytes.is_some());
        assert_eq!((condition.screen_on, condition.celsius_tenths), (None, None));
        assert_eq!(watch.turned(0), None, "it was told");
        put("state.json", "{");
        let watch = DeviceWatch::start(options, &data, Wake::nobody()).unwrap();
        assert_eq!((watch.condition().battery_percent, watch.condition().crossed.low_battery), (Some(80), false));
    }

    #[test]
    fn a_node_is_idle_half_a_minute_after_its_last_work_whatever_turns_its_loop() {
        let at = |seconds| Moment { awake: Duration::from_secs(seconds), since_boot: Duration::from_secs(seconds) };
        assert_eq!([29, 30].map(|now| pause(at(now), at(0))), [TICK, IDLE_TICK]);
        let mut watch =
            DeviceWatch::start(DeviceOptions::default(), Path::new("/nonexistent"), Wake::nobody()).unwrap();
        for (work, counted) in [(0, 0), (0, 0), (7, 7), (7, 7)] {
            let _ = watch.turned(work);
            assert_eq!(watch.shared.work.load(Ordering::Relaxed), counted, "a turn alone is no work");
        }
    }

    #[test]
    fn links_that_are_gone_for_a_moment_are_no_pause() {
        let mut watch =
            DeviceWatch::start(DeviceOptions::default(), Path::new("/nonexistent"), Wake::nobody()).unwrap();
        watch.links_lost("timed out");
        watch.linked();
        assert_eq!(watch.with_pauses(Pauses::count), 0);
        let past = Moment { awake: Duration::ZERO, since_boot: Duration::ZERO };
        watch.lost = Some((past, "timed out".to_string(), 0));
        watch.linked();
        assert_eq!(watch.with_pauses(Pauses::count), 1);
        assert!(watch.condition().last_pause.unwrap().reason.contains("no gateway was linked (timed out)"));
        // What another pause explains counts once.
        watch.lost = Some((past, "timed out".to_string(), 0));
        watch.linked();
        assert_eq!(watch.with_pauses(Pauses::count), 1);
    }
}
