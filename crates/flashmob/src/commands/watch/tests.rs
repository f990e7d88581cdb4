use flashmob_core::buckets::BUCKETS;
use flashmob_server::admin::samples;
use flashmob_server::status::live::LiveSlot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::history::{History, LATELY_S};
use super::screen::pressed;
use super::view::View;

/// What stands on a screen of this size, without the ends of lines.
fn picture(mut view: View, history: &History, trouble: Option<&str>, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame, history, trouble)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
    (0..height).map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_picture_is_the_one_that_was_looked_at() {
    let history = History::new(samples::live(4, 30));
    let text = picture(View::default(), &history, None, (120, 24));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/watch/four-nodes.txt");
    if std::env::var_os("ACCEPT_TEXT").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "ACCEPT_TEXT=1 accepts it");
}

#[test]
fn every_size_of_terminal_has_the_sentence_and_the_node_in_trouble() {
    let history = History::new(samples::live(4, 30));
    for size in [(80, 24), (100, 30), (200, 60), (80, 12)] {
        let text = picture(View::default(), &history, None, size);
        assert!(text.contains("it is hot (33.5 °C)") && text.contains("3 of 4 nodes"), "{size:?}\n{text}");
    }
    // Too small to be of use, but no reason to die.
    for size in [(1, 1), (10, 3), (500, 2), (3, 200)] {
        picture(View::default(), &history, Some("gone"), size);
    }
}

#[test]
fn the_slowest_node_is_named_with_where_its_time_goes() {
    let text = picture(View::default(), &History::new(samples::live(4, 30)), None, (120, 24));
    let line = text.lines().find(|line| line.starts_with("slowest")).unwrap();
    assert!(line.contains("192.168.178.22:7780") && line.contains("most of it in flash"), "{line}");
}

#[test]
fn names_from_elsewhere_reach_the_terminal_without_control_characters() {
    let text = picture(View::default(), &History::new(samples::live(4, 3)), Some(samples::EVIL), (160, 24));
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
}

#[test]
fn sixty_four_nodes_are_scrolled_through() {
    let history = History::new(samples::live(64, 3));
    let mut view = View::default();
    let text = picture(view, &history, None, (120, 40));
    assert!(text.contains(":7780") && !text.contains("192.168.178.83") && text.contains("more nodes"), "{text}");
    for _ in 0..100 {
        assert!(pressed(&mut view, KeyCode::Down.into(), 64));
    }
    let text = picture(view, &history, None, (120, 40));
    assert!(text.contains("192.168.178.83"), "{text}");
}

#[test]
fn keys_quit_zoom_and_scroll() {
    let mut view = View::default();
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for key in [KeyCode::Char('q').into(), KeyCode::Esc.into(), ctrl_c] {
        assert!(!pressed(&mut view, key, 4));
    }
    assert!(pressed(&mut view, KeyCode::Char('c').into(), 4), "a letter");
    for zoom in [1, 2, 3, 0] {
        assert!(pressed(&mut view, KeyCode::Char('z').into(), 4));
        assert_eq!(view.zoom, zoom);
    }
    for (key, first) in [
        (KeyCode::Up, 0),
        (KeyCode::Down, 1),
        (KeyCode::Down, 2),
        (KeyCode::Down, 3),
        (KeyCode::Down, 3),
        (KeyCode::Up, 2),
        (KeyCode::Home, 0),
    ] {
        assert!(pressed(&mut view, key.into(), 4));
        assert_eq!(view.first, first);
    }
}

#[test]
fn nothing_known_is_said_as_such() {
    let history = History::new(samples::live(0, 0));
    let text = picture(View::default(), &history, None, (80, 24));
    assert!(text.contains("all is well") && text.contains("no answers in the last"), "{text}");
    let text = picture(View::default(), &history, Some("nothing listens on 127.0.0.1:1"), (80, 24));
    assert!(text.contains("out of date: nothing listens on 127.0.0.1:1"), "{text}");
}

#[test]
fn reports_are_joined_and_old_slots_forgotten() {
    let mut history = History::new(samples::live(2, 3));
    // The next report begins where that one ended; one that overlaps adds only what is new.
    let next = |seconds: u64, from: u64| {
        let mut report = samples::live(2, seconds);
        report.slots.iter_mut().for_each(|slot| slot.second = slot.second - 3_700 + from);
        report.next_second = from + seconds;
        report
    };
    history.add(next(2, 3_703));
    history.add(next(2, 3_704));
    let seconds = |history: &History| history.slots.iter().map(|slot| slot.second).collect::<Vec<_>>();
    assert_eq!(seconds(&history), (3_700..3_706).collect::<Vec<_>>());
    history.add(next(1, 4_302));
    assert_eq!(seconds(&history), [3_703, 3_704, 3_705, 4_302], "ten minutes");
    let mut restarted = next(1, 5);
    restarted.start = "another".to_string();
    history.add(restarted);
    assert_eq!(seconds(&history), [5]);
}

/// A slot in which node 1 alone answered `answered` pieces.
fn slot(second: u64, answered: u64, p50_us: u64, p99_us: u64) -> LiveSlot {
    let histogram = |bucket: u32| vec![vec![bucket, answered as u32]];
    LiveSlot {
        second,
        seconds: 1,
        node: vec![1],
        answered: vec![answered],
        p50_us: vec![Some(p50_us)],
        p99_us: vec![Some(p99_us)],
        batches: vec![answered / 4],
        pieces: vec![answered],
        at_once: vec![3],
        store_operations: vec![1],
        queue: histogram(4),
        way: histogram(9),
        at_node: histogram(7),
        flash: histogram(7),
        ..LiveSlot::default()
    }
}

#[test]
fn the_last_seconds_are_summed_up() {
    let mut report = samples::live(2, 0);
    report.next_second = 100;
    // The first one is too long ago.
    report.slots = vec![slot(94, 1_000, 9, 9), slot(95, 100, 10, 50), slot(98, 300, 30, 40)];
    let history = History::new(report);
    let lately = history.lately(1);
    assert_eq!((lately.answered_per_s, lately.p50_us, lately.p99_us), (400.0 / LATELY_S as f64, Some(25), Some(50)));
    assert_eq!((lately.pieces_per_batch, lately.at_once), (Some(4.0), Some(0.75)));
    let spent = lately.spent;
    assert!((18.0..22.0).contains(&spent.queue_us) && (180.0..220.0).contains(&spent.way_us), "{spent:?}");
    // All of the node's time is in its flash.
    assert!(spent.node_us == 0.0 && (70.0..95.0).contains(&spent.flash_us), "{spent:?}");
    assert_eq!(spent.largest().map(|(name, _)| name), Some("network"));
    assert_eq!(history.lately(0), super::history::Lately::default());
    assert_eq!(BUCKETS, 32);
}

#[test]
fn columns_end_now_and_show_the_worst() {
    let mut report = samples::live(2, 0);
    report.next_second = 100;
    let merged = LiveSlot { seconds: 3, ..slot(90, 1, 1, 7) };
    report.slots = vec![merged, slot(97, 1, 1, 20), slot(98, 1, 1, 30), slot(99, 1, 1, 10)];
    let history = History::new(report);
    assert_eq!(history.p99_us(1, 4, 1), [None, Some(20), Some(30), Some(10)]);
    assert_eq!(history.p99_us(1, 4, 2), [Some(7), None, Some(20), Some(30)]);
    assert_eq!(history.p99_us(1, 2, 5), [Some(7), Some(30)]);
    assert_eq!(history.p99_us(0, 2, 5), [None, None]);
    assert_eq!(history.p99_us(1, 0, 1), []);
}

#[test]
fn longer_slots_give_the_same_rates() {
    for slot_seconds in [1, 2, 3, 5, 10] {
        let mut report = samples::live(2, 0);
        (report.slot_seconds, report.next_second) = (slot_seconds, 60);
        let slots = (0..60 / slot_seconds)
            .map(|n| LiveSlot { seconds: slot_seconds, ..slot(n * slot_seconds, 100 * slot_seconds, 9, 9) });
        report.slots = slots.collect();
        assert_eq!(History::new(report).lately(1).answered_per_s, 100.0, "{slot_seconds}");
    }
}

#[test]
fn what_cannot_be_is_not_believed() {
    let mut report = samples::live(2, 0);
    (report.next_second, report.kept_seconds, report.slot_seconds) = (100, u64::MAX, 0);
    let odd = |second, seconds| LiveSlot { seconds, ..slot(second, u64::MAX, u64::MAX, u64::MAX) };
    report.slots = vec![odd(0, u64::MAX), odd(u64::MAX, 1), odd(100, 1), odd(5, 0), odd(98, 1), odd(99, 1)];
    report.slots[4].node.clear();
    report.more_warnings = usize::MAX;
    report.warnings = vec!["one".to_string(), "two".to_string()];
    let mut history = History::new(report.clone());
    assert_eq!(history.slots.len(), 2);
    history.add(report);
    picture(View::default(), &history, None, (120, 24));
}
