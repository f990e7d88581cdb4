//! A link in use keeps the node's radio awake, an idle one lets it sleep; a node that was away or is elsewhere is found at once.

use std::time::Duration;

use crate::testing::{NOW, answer, bytes_of, frames, gateway_config, native_call, volume, welcome, welcome_link};
use flashmob_core::condition::{Condition, Crossed, LastPause};
use flashmob_core::gateway::{Action, ClientId, Event, ExtentSpec, Gateway, LinkId, NoLocal, USED_FOR, VolumeSpec};
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::Time;
use flashmob_core::wire::condition::{Alive, decode_alive, put_alive, put_condition};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::Welcome;

const SIZE_BYTES: u64 = 1 << 30;
pub(crate) const PACE: Duration = Duration::from_millis(75);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
const LINK: LinkId = LinkId(0);
pub(crate) const MS: Duration = Duration::from_millis(1);

pub(crate) struct Bed {
    pub gateway: Gateway,
    client: ClientId,
    pub now: Time,
    cookie: u64,
    pub events: Vec<Event>,
    /// When the shell was asked to connect.
    pub connects: Vec<Time>,
    /// When it was woken.
    wakes: usize,
    /// Kinds of the frames that the link carried.
    carried: Vec<(Time, FrameKind)>,
}

/// What the only node last reported of its battery, once it has reported its condition.
pub(crate) fn battery_percent(bed: &Bed) -> Option<Option<u8>> {
    let node = bed.gateway.status().volumes.remove(0).nodes.remove(0);
    node.condition.map(|(condition, _)| condition.battery_percent)
}

impl Bed {
    fn new(pace: Option<Duration>, keeps_alive: bool) -> Bed {
        Bed::with_links(pace, keeps_alive, 1)
    }

    pub fn with_links(pace: Option<Duration>, keeps_alive: bool, links: u16) -> Bed {
        let extents = vec![ExtentSpec { size_bytes: Some(SIZE_BYTES), ..ExtentSpec::new("n") }];
        let spec = VolumeSpec { links, timeout: TIMEOUT, keep_awake: pace, extents, ..volume(&[]) };
        let (mut gateway, now) = (Gateway::new(gateway_config(spec)).unwrap(), NOW);
        gateway.handle_timeout(now);
        while gateway.poll_action().is_some() {}
        let client = gateway.native_opened(0).unwrap();
        let mut bed =
            Bed { gateway, client, now, cookie: 0, events: vec![], connects: vec![], wakes: 0, carried: vec![] };
        bed.welcome(keeps_alive);
        bed.pass(MS);
        assert!(bed.events.iter().all(|e| !matches!(e, Event::NodeDown(..))), "{:?}", bed.events);
        (bed.events, bed.wakes, bed.carried) = (vec![], 0, vec![]);
        bed
    }

    /// The node is reached, and agrees.
    fn welcome(&mut self, keeps_alive: bool) {
        self.welcome_on(LINK, keeps_alive, 1);
    }

    /// The same on some link, by some device.
    pub fn welcome_on(&mut self, link: LinkId, keeps_alive: bool, boot: u8) {
        let welcome = Welcome { boot_id: [boot; 16], keeps_alive, ..welcome(SIZE_BYTES) };
        welcome_link(&mut self.gateway, self.now, link, &welcome);
        self.look();
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        self.gateway.link_rx(LINK).extend(bytes);
        self.gateway.process_link(self.now, LINK);
        self.look();
    }

    pub fn read(&mut self) {
        self.cookie += 1;
        let call = native_call(self.cookie, Op::Read, self.cookie * 4096, 1);
        self.gateway.submit(self.now, self.client, call, &mut NoLocal);
        self.gateway.turn(self.now, &mut NoLocal);
    }

    /// What a shell would do: write, note, and do as it was told.
    pub fn look(&mut self) {
        while let Some(action) = self.gateway.poll_action() {
            match action {
                Action::Connect { .. } => self.connects.push(self.now),
                Action::Tell(event) => self.events.push(event),
                _ => {}
            }
        }
    }

    /// Writes what the link has, and answers its batches if the node is there. Returns what was written.
    fn serve(&mut self, is_there: bool) -> Vec<FrameKind> {
        let out = self.gateway.link_out(LINK).take_all();
        self.gateway.link_wrote(self.now, LINK, 0);
        let (mut kinds, mut answers) = (vec![], vec![]);
        for frame in frames(&out) {
            kinds.push(frame.kind);
            self.carried.push((self.now, frame.kind));
            match frame.kind {
                FrameKind::Batch => {
                    answer(&frame, &mut answers);
                }
                FrameKind::Alive if decode_alive(&frame.meta) == Ok(Alive::Probe) => {
                    put_alive(&mut answers, Alive::Here)
                }
                _ => {}
            }
        }
        if is_there && !answers.is_empty() {
            self.receive(&answers);
        }
        kinds
    }

    /// Time goes by, as a shell would let it: it calls when it was told to.
    pub fn pass_with(&mut self, time: Duration, is_there: bool) {
        let end = self.now + time;
        self.serve(is_there);
        for turn in 0.. {
            assert!(turn < 100_000, "it spins");
            let due = self.gateway.next_timeout().filter(|due| *due <= end);
            self.wakes += usize::from(due.is_some());
            self.now = due.unwrap_or(end).max(self.now);
            self.gateway.handle_timeout(self.now);
            self.gateway.turn(self.now, &mut NoLocal);
            self.look();
            self.serve(is_there);
            if due.is_none() {
                return;
            }
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.pass_with(time, true);
    }

    fn alive_frames(&self) -> usize {
        self.carried.iter().filter(|(_, kind)| *kind == FrameKind::Alive).count()
    }

    pub fn results(&mut self) -> Vec<Result<(), Failure>> {
        self.gateway.completions().drain(..).map(|c| c.result.map(|_| ())).collect()
    }
}

#[test]
fn a_link_in_use_is_never_silent_for_longer_than_the_pace_and_falls_silent_after_a_second() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.read();
    let used = bed.now;
    bed.pass(Duration::from_secs(60));
    assert_eq!(bed.results(), [Ok(())]);
    let times: Vec<Time> = bed.carried.iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= PACE + 2 * MS), "{times:?}");
    assert_eq!(bed.alive_frames(), (USED_FOR.as_millis() / PACE.as_millis()) as usize, "{times:?}");
    assert!(*times.last().unwrap() <= used + USED_FOR + MS);
}

#[test]
fn an_idle_gateway_is_not_woken_at_all() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.read();
    bed.pass(Duration::from_secs(5));
    bed.wakes = 0;
    bed.pass(Duration::from_secs(3600));
    assert_eq!((bed.wakes, bed.gateway.next_timeout()), (0, None));
}

#[test]
fn a_link_that_is_busy_needs_none() {
    let mut bed = Bed::new(Some(PACE), true);
    for _ in 0..200 {
        bed.read();
        bed.pass(10 * MS);
    }
    assert_eq!(bed.alive_frames(), 0);
}

#[test]
fn neither_switched_off_nor_to_an_old_node_is_one_sent() {
    for (pace, keeps_alive) in [(None, true), (Some(PACE), false)] {
        let mut bed = Bed::new(pace, keeps_alive);
        bed.read();
        bed.pass(Duration::from_secs(3));
        assert_eq!((bed.alive_frames(), bed.results()), (0, vec![Ok(())]));
    }
}

#[test]
fn no_frame_that_keeps_alive_holds_up_a_request() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.read();
    for _ in 0..50 {
        bed.pass(PACE + 3 * MS);
        bed.read();
        assert_eq!(bed.serve(true), [FrameKind::Batch], "it goes in the turn that it came in");
    }
    assert_eq!(bed.results().len(), 51);
}

#[test]
fn after_a_doze_of_minutes_requests_have_failed_and_the_node_is_back_within_the_longest_pause() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.read();
    bed.pass(MS);
    assert_eq!(bed.results(), [Ok(())]);
    let asleep = bed.now;
    bed.read();
    for _ in 0..300 {
        // The kernel's connects end in nothing: the gateway gives them up.
        bed.pass_with(Duration::from_secs(1), false);
    }
    assert_eq!(bed.results(), [Err(Failure::Io)], "it has failed, and once");
    let gone = bed.events.iter().filter(|event| matches!(event, Event::NodeDown(..))).count();
    assert!((1..=2).contains(&gone), "{:?}", bed.events);
    let first = bed.connects[0];
    assert!(first >= asleep + TIMEOUT / 2 && first <= asleep + TIMEOUT / 2 + Duration::from_secs(1), "{first:?}");
    // Whenever it is back, an attempt is under way or begins within the longest pause.
    bed.connects.clear();
    let back = bed.now;
    while bed.connects.is_empty() {
        bed.pass_with(10 * MS, false);
    }
    assert!(bed.now - back <= Duration::from_secs(3 + 2), "an attempt under way, and a pause");
    bed.welcome(true);
    bed.read();
    bed.pass(MS);
    assert_eq!(bed.results(), [Ok(())]);
}

#[test]
fn a_gap_that_the_connection_survives_costs_nothing_but_the_gap() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.read();
    // Roaming: nothing is answered for three seconds, then TCP brings everything.
    let batch = bed.gateway.link_out(LINK).take_all();
    bed.gateway.link_wrote(bed.now, LINK, 0);
    bed.pass_with(Duration::from_secs(3), false);
    assert!(bed.results().is_empty() && bed.connects.is_empty());
    bed.gateway.link_out(LINK).push_bytes(&batch);
    bed.serve(true);
    assert_eq!((bed.results(), bed.connects.len()), (vec![Ok(())], 0));
}

#[test]
fn a_node_that_is_announced_is_tried_at_once_but_not_more_often_than_the_shortest_pauses() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.gateway.link_closed(bed.now, LINK, "reset");
    for _ in 0..8 {
        bed.pass_with(Duration::from_secs(3), false);
        bed.gateway.link_closed(bed.now, LINK, "unreachable");
        bed.look();
    }
    bed.connects.clear();
    bed.pass_with(100 * MS, false);
    assert!(bed.connects.is_empty(), "it pauses");
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass_with(MS, false);
    assert_eq!(bed.connects.len(), 1);
    // A stranger who announces it again and again makes it no faster than that.
    let begun = bed.now;
    for _ in 0..1000 {
        bed.gateway.link_closed(bed.now, LINK, "refused");
        bed.gateway.try_node(bed.now, 0, true);
        bed.pass_with(MS, false);
    }
    let attempts = bed.connects.len() - 1;
    assert!((15..=40).contains(&attempts), "{attempts} in {:?}", bed.now - begun);
}

#[test]
fn an_attempt_at_the_old_place_is_given_up_for_one_at_the_new() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.gateway.link_closed(bed.now, LINK, "reset");
    bed.pass_with(Duration::from_millis(100), false);
    assert_eq!(bed.connects.len(), 1, "it connects");
    bed.gateway.try_node(bed.now, 0, false);
    bed.pass_with(100 * MS, false);
    assert_eq!(bed.connects.len(), 1, "the same place: the attempt goes on");
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass_with(MS, false);
    assert_eq!(bed.connects.len(), 2);
}

#[test]
fn a_ready_link_is_kept_if_it_answers_and_given_up_in_a_second_if_not() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass(Duration::from_secs(5));
    assert_eq!((bed.alive_frames(), bed.connects.len()), (1, 0), "it answered");
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass_with(Duration::from_millis(999), false);
    assert!(bed.connects.is_empty());
    bed.pass_with(2 * MS, false);
    assert_eq!(bed.connects.len(), 1);
    assert!(matches!(&bed.events[..], [Event::NodeDown(_, why)] if why.contains("did not answer")), "{:?}", bed.events);
    // Of an old node nobody asks what it does not know.
    let mut bed = Bed::new(Some(PACE), false);
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass_with(Duration::from_secs(5), false);
    assert_eq!((bed.alive_frames(), bed.connects.len()), (0, 0));
}

#[test]
fn what_a_node_tells_of_its_device_is_kept_and_told_when_a_limit_is_crossed() {
    let mut bed = Bed::new(Some(PACE), true);
    let tell = |bed: &mut Bed, condition: &Condition| {
        bed.receive(&bytes_of(|out| put_condition(out, condition)));
    };
    let well = Condition { battery_percent: Some(80), ..Condition::default() };
    tell(&mut bed, &well);
    assert!(bed.events.is_empty());
    let crossed = Crossed { low_battery: true, ..Crossed::default() };
    let low = Condition { battery_percent: Some(9), crossed, ..Condition::default() };
    tell(&mut bed, &low);
    tell(&mut bed, &Condition { battery_percent: Some(8), ..low.clone() });
    assert!(
        matches!(&bed.events[..], [Event::NodeWarning(name, text)] if name == "n" && text.contains("9 %")),
        "{:?}",
        bed.events
    );
    bed.events.clear();
    let last_pause = Some(LastPause { lasted_ms: 60_000, reason: "the device slept".to_string() });
    tell(&mut bed, &Condition { pauses: 1, last_pause: last_pause.clone(), ..well.clone() });
    tell(&mut bed, &Condition { pauses: 1, last_pause, battery_percent: Some(79), ..well });
    let expected =
        [Event::NodeRecovered("n".into()), Event::NodePaused("n".into(), "paused 60 s: the device slept".into())];
    assert_eq!(bed.events, expected);
    assert_eq!(battery_percent(&bed), Some(Some(79)));
    assert_eq!(bed.gateway.paused_ago(0, bed.now + MS), Some(MS));
    // What a gateway hears first may be long ago.
    let mut bed = Bed::new(Some(PACE), true);
    tell(&mut bed, &Condition { pauses: 3, ..low.clone() });
    assert_eq!(bed.gateway.paused_ago(0, bed.now), None);
    // A node that was started anew counts anew.
    tell(&mut bed, &low);
    assert_eq!(bed.gateway.paused_ago(0, bed.now), None);
    tell(&mut bed, &Condition { pauses: 1, ..low.clone() });
    assert_eq!(bed.gateway.paused_ago(0, bed.now), Some(Duration::ZERO));
    // A node that did not say that it knows such frames must not send one.
    let mut bed = Bed::new(Some(PACE), false);
    tell(&mut bed, &low);
    assert!(matches!(&bed.events[..], [Event::NodeDown(..)]), "{:?}", bed.events);
}

#[test]
fn a_dead_link_that_is_asked_is_given_up_although_requests_go_on_it() {
    let mut bed = Bed::new(Some(PACE), true);
    bed.pass_with(Duration::from_secs(5), false);
    bed.gateway.try_node(bed.now, 0, true);
    bed.pass_with(100 * MS, false);
    bed.read();
    bed.pass_with(950 * MS, false);
    assert_eq!(bed.connects.len(), 1, "{:?}", bed.events);
}

const OTHER: LinkId = LinkId(1);

pub(crate) fn is_lost(bed: &Bed) -> bool {
    bed.events.iter().any(|event| matches!(event, Event::NodeDown(..)))
}

#[test]
fn when_one_link_is_given_up_for_its_silence_the_others_show_whether_they_live() {
    for other_lives in [true, false] {
        let mut bed = Bed::with_links(Some(PACE), true, 2);
        bed.welcome_on(OTHER, true, 1);
        bed.read();
        bed.pass_with(TIMEOUT / 2 + Duration::from_millis(60), false);
        assert_eq!(bed.connects.len(), 0);
        bed.look();
        let asked = if bed.gateway.link_out(OTHER).is_empty() { LINK } else { OTHER };
        let out = bed.gateway.link_out(asked).take_all();
        let kinds: Vec<FrameKind> = frames(&out).iter().map(|frame| frame.kind).collect();
        assert!(kinds.contains(&FrameKind::Alive), "{kinds:?}");
        if other_lives {
            bed.gateway.link_rx(asked).extend(&bytes_of(|out| put_alive(out, Alive::Here)));
            bed.gateway.process_link(bed.now, asked);
        }
        bed.pass_with(TIMEOUT / 4, false);
        assert_eq!(is_lost(&bed), !other_lives, "a quarter of the timeout is left for another attempt");
    }
}
