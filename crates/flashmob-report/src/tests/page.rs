//! What stands on the page, and that nothing from a file gets onto it unescaped.

use flashmob_results::Document;
use flashmob_results::disk::{Cache, Engine, Operation, Parameters, Pattern};
use flashmob_results::warning::{Code, Warning};

use super::builder::{
    document, flat_after_four, grid, modelled, parameters, pattern, point, random, report, scheduler, steady,
};

const PAGE_BYTES_MAX: usize = 1_000_000;

pub(super) fn page(documents: Vec<Document>) -> String {
    let html = report(documents).html().unwrap();
    figures(&html);
    html
}

/// Each of the page's figures, which must be XML with a title and a description.
pub(super) fn figures(html: &str) -> Vec<String> {
    let mut figures = Vec::new();
    for (at, _) in html.match_indices("<svg") {
        let svg = &html[at..at + html[at..].find("</svg>").expect("an end") + "</svg>".len()];
        let parsed = roxmltree::Document::parse(svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
        for (nth, name) in ["title", "desc"].into_iter().enumerate() {
            let child = parsed.root_element().children().filter(|n| n.is_element()).nth(nth).unwrap();
            assert_eq!(child.tag_name().name(), name);
            assert!(child.text().is_some_and(|t| !t.is_empty()), "{name} is empty");
        }
        assert!(!svg.contains("=\"#"), "a colour that does not follow the page: {svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        figures.push(svg.to_string());
    }
    figures
}

#[test]
fn what_comes_from_a_file_is_escaped() {
    let evil = "<script>alert('1')</script>\"&";
    let mut points = grid(&[4_096], &[1, 4, 8], 100.0, flat_after_four);
    points.push(steady(scheduler(evil), 100.0));
    points.push(steady(scheduler("none"), 200.0));
    points[0].warnings.push(Warning::new(Code::OtherIo, evil));
    let mut document = document(evil, Some(false), points);
    for text in [&mut document.device.model, &mut document.device.kernel, &mut document.preset] {
        *text = Some(evil.into());
    }
    document.warnings.push(Warning::new(Code::SmallFile, evil));
    document.program_version = evil.into();
    let mut of_model = modelled("hdd", Vec::new());
    let flashmob_results::Measurement::Disk(disk) = &mut of_model.measurement else { panic!("a disk") };
    disk.model.as_mut().unwrap().description = evil.into();
    let html = page(vec![document, of_model]);
    assert!(!html.contains("<script"), "a label became markup");
    assert!(html.contains("&lt;script&gt;"));
    assert!(!html.contains("'1')</"), "an end tag came through");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let html = page(vec![document("a", Some(false), grid(&[1, 4_096], &[1, 2, 4, 8], 100.0, flat_after_four))]);
    for outside in ["<script", "<link", "<img", "@import", "url(", "src="] {
        assert!(!html.contains(outside), "{outside}");
    }
    // The name of SVG's language is an address that nobody visits.
    assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count());
}

#[test]
fn figures_are_there_if_their_data_is() {
    let count = |points| figures(&page(vec![document("a", None, points)])).len();
    assert_eq!(count(Vec::new()), 0);
    // Reads and bytes over threads, and percentiles.
    assert_eq!(count(grid(&[4_096], &[1, 4], 100.0, flat_after_four)), 3);
    // One point: no line over threads, only its percentiles.
    assert_eq!(count(vec![steady(parameters(), 100.0)]), 1);
    assert_eq!(count(vec![steady(pattern(Pattern::Sequential), 900.0), steady(parameters(), 100.0)]), 2);
    assert_eq!(count(vec![steady(pattern(Pattern::Sort), 9.0), steady(pattern(Pattern::Shuffle), 8.0)]), 2);
    assert_eq!(count(vec![steady(scheduler("none"), 9.0), steady(scheduler("bfq"), 8.0)]), 2);
    // From the page cache, or written, or with a queue: apart from what the papers measured, and not over threads.
    let warm = |p: Parameters| Parameters { cache: Cache::Warm, ..p };
    assert_eq!(count([1, 4, 8].map(|t| steady(warm(random(4_096, t)), 1e6)).to_vec()), 1);
    let written = |p: Parameters| Parameters { operation: Operation::Write, ..p };
    assert_eq!(count([1, 4, 8].map(|t| steady(written(random(4_096, t)), 1e3)).to_vec()), 1);
    let deep = |depth| Parameters { engine: Engine::IoUring, depth, ..parameters() };
    assert_eq!(count([1, 4, 16].map(|d| steady(deep(d), 1e3 * f64::from(d))).to_vec()), 1);
    assert_eq!(count(vec![steady(deep(4), 1e3)]), 0);
}

#[test]
fn what_is_absent_names_the_command_that_would_measure_it() {
    let html = page(vec![document("a", None, vec![steady(parameters(), 100.0)])]);
    for preset in ["p1", "p3-basic", "p3-order", "p3-scheduler"] {
        assert!(html.contains(&format!("flashmob bench disk FILE --preset {preset}")), "{preset}");
    }
}

#[test]
fn the_recorded_command_line_is_shown_and_its_absence_is_said() {
    let old = document("a", None, vec![steady(parameters(), 100.0)]);
    let recorded = Document { command: Some("flashmob bench disk 'a file'".into()), ..old.clone() };
    let method = |document| {
        let html = page(vec![document]);
        html[html.find("id=\"method\"").unwrap()..].to_string()
    };
    assert!(method(recorded).contains("<code>flashmob bench disk 'a file'</code>"));
    let text = method(old);
    assert!(!text.contains("<pre") && text.contains("The command line was not recorded"), "{text}");
}

#[test]
fn modelled_shortened_and_interrupted_are_said_first() {
    let mut cut = document("cut", Some(false), Vec::new());
    cut.scale = 0.1;
    cut.interrupted = true;
    let html = page(vec![modelled("emmc", Vec::new()), cut]);
    let head = &html[..html.find("<main").unwrap()];
    for words in ["Modelled: ", "emmc (modelled)", "shortened to 10 % of the preset", "interrupted before its end"] {
        assert!(head.contains(words), "{words}: {head}");
    }
}

#[test]
fn an_emulated_processor_is_said_first_and_beside_what_rests_on_times() {
    let points = || grid(&[4_096], &[1, 2, 4, 8, 16], 100.0, flat_after_four);
    let mut emulated = document(&"long ".repeat(40), Some(false), points());
    emulated.device.system = Some("Android 5.1".into());
    emulated.device.emulated = Some("qemu-user on x86_64".into());
    let html = page(vec![emulated.clone()]);
    let head = &html[..html.find("<main").unwrap()];
    for words in [
        "Emulated: ",
        "The processor (aarch64) was imitated by qemu-user on x86_64",
        "counts hold, times do not",
        "(emulated)",
    ] {
        assert!(head.contains(words), "{words}: {head}");
    }
    assert!(html.contains("Emulated by") && html.contains("doubtful: emulated"), "{html}");
    let claims = report(vec![emulated]).claims();
    let findings: Vec<_> = claims.iter().flat_map(|claim| &claim.findings).collect();
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding.doubts == [Code::Emulated]), "{findings:?}");
    let real = page(vec![document("a", Some(false), points())]);
    assert!(!real.to_lowercase().contains("emulated"), "a real device is called emulated");
}

#[test]
fn zero_requests_and_huge_values_are_shown_and_break_nothing() {
    let mut points = vec![point(parameters(), &[0.0, 0.0]), point(random(1, 4), &[])];
    points.extend([1, 2, 64].map(|t| steady(random(4_096, t), 1e300)));
    points.push(steady(random(u64::MAX, u32::MAX), 1.0));
    points.extend([Pattern::Sort, Pattern::Shuffle].map(|order| steady(pattern(order), f64::MAX / 1e10)));
    let html = page(vec![document("a", Some(true), points.clone()), document("b", Some(false), points)]);
    assert!(html.contains("1.00e300"));
}

#[test]
fn hundreds_of_points_stay_below_a_megabyte() {
    let threads: Vec<u32> = (1..=30).collect();
    let points = || grid(&[1, 512, 1_024, 2_048, 4_096, 8_192, 16_384], &threads, 500.0, flat_after_four);
    let html = page(vec![
        document("a", Some(false), points()),
        document("b", Some(true), points()),
        modelled("emmc", points()),
    ]);
    assert!(html.len() < PAGE_BYTES_MAX, "{} bytes", html.len());
}

#[test]
fn more_lines_than_can_be_told_apart_are_thinned_and_that_is_said() {
    let blocks: Vec<u64> = (1..=23).map(|n| n * 512).collect();
    let html = page(vec![document("a", Some(false), grid(&blocks, &[1, 2], 500.0, flat_after_four))]);
    assert!(html.contains("10 of 23 block sizes are drawn"));
}

#[test]
fn equal_names_are_told_apart_by_file_and_then_by_number() {
    let same = || document("tablet", None, Vec::new());
    let mut inputs = Vec::new();
    for path in ["p1.json", "old/p1.json", "p3.json"] {
        inputs.push(crate::Input { path: path.into(), document: same() });
    }
    inputs.push(crate::Input { path: "p1.json".into(), document: document("pc", None, Vec::new()) });
    let report = crate::Report::new(inputs);
    let names: Vec<&str> = report.entries().iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["tablet · p1", "tablet · p1 (2)", "tablet · p3", "pc"]);
}

#[test]
fn a_modelled_device_is_called_so_once_and_whatever_its_label() {
    let long = Document { label: Some("x".repeat(200)), ..modelled("emmc", vec![steady(parameters(), 9.0)]) };
    let report = report(vec![long, modelled("hdd", vec![steady(parameters(), 9.0)])]);
    let names: Vec<&str> = report.entries().iter().map(|e| e.name.as_str()).collect();
    assert!(names[0].ends_with("… (modelled)") && names[0].chars().count() <= 60, "{names:?}");
    assert_eq!(names[1], "hdd (modelled)");
    let html = report.html().unwrap();
    for twice in ["(modelled) (modelled)", "(modelled)</strong> <span", "(modelled) <span"] {
        assert!(!html.contains(twice), "{twice}");
    }
}

#[test]
fn orders_are_drawn_as_time_and_the_claim_says_both() {
    let orders = [(Pattern::Sort, 500.0), (Pattern::Shuffle, 250.0)];
    let html = page(vec![document("a", None, orders.map(|(p, rate)| steady(pattern(p), rate)).to_vec())]);
    assert!(html.contains("Bars of medians in ms per read: sort 2 and shuffle 4."));
    assert!(html.contains("sort 500/s, 2 ms each, shuffle 250/s, 4 ms each: 2 times as fast"));
    let fast = page(vec![document("a", None, orders.map(|(p, rate)| steady(pattern(p), rate * 10.0)).to_vec())]);
    assert!(fast.contains("Bars of medians in us per read: sort 200 and shuffle 400."));
}

#[test]
fn the_top_of_the_page_says_what_was_found() {
    let mut points = grid(&[1, 4_096], &[1, 4, 8], 500.0, flat_after_four);
    let written = Parameters { operation: Operation::Write, ..random(4_096, 2) };
    points.push(steady(written, 77.0));
    let html = page(vec![document("a", None, points), modelled("hdd", grid(&[4_096], &[1, 4, 8], 90.0, |_| 1.0))]);
    let head = &html[..html.find("<main").unwrap()];
    for words in [
        "500 random 4 KiB reads/s with 1 thread (p50 ",
        "; up to 1,500/s (read random 1 B, 4 threads); up to 77/s (write random 4 KiB, 2 threads).",
        "Reads grow up to 4 threads",
        "No gain below 4 KiB",
    ] {
        assert!(head.contains(words), "{words}: {head}");
    }
    // A verdict that rests on a model says so where it stands.
    let alone = page(vec![modelled("emmc", grid(&[1, 4_096], &[1, 4, 8], 500.0, flat_after_four))]);
    assert_eq!(alone.matches("✓ holds (modelled)").count(), 2);
    assert!(!head.contains("holds (modelled)"), "{head}");
}

#[test]
fn many_results_leave_the_verdicts_on_the_first_screen() {
    let cut = Document { scale: 0.1, ..document("a", None, vec![steady(parameters(), 9.0)]) };
    let order = |documents: usize| {
        let html = page(vec![cut.clone(); documents]);
        let at = |what: &str| html.find(what).unwrap_or_else(|| panic!("{what} is missing"));
        at("class=\"tally\"") < at("9 random 4 KiB reads/s")
    };
    assert!(!order(3) && order(4));
    let html = page(vec![cut.clone(); 4]);
    assert!(html[..html.find("<main").unwrap()].contains("shortened"), "what is shortened is said at the top");
}

#[test]
fn a_model_does_not_have_the_properties_of_its_host() {
    let html = page(vec![modelled("emmc", Vec::new())]);
    let table = &html[html.find("class=\"devices\"").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    assert!(table.contains("The model ran on") && table.contains("Test board, Linux 6.1.0"), "{table}");
    assert!(!table.contains(">Memory<") && !table.contains(">Kernel<"), "{table}");
}

#[test]
fn scales_are_equal_where_that_compares_and_said_to_differ_where_not() {
    let at = |rate| document("a", None, grid(&[4_096], &[1, 4], rate, flat_after_four));
    assert!(page(vec![at(100.0), at(130.0)]).contains("Same scale in all of these figures."));
    assert!(page(vec![at(100.0), at(5_000.0)]).contains("Each figure has its own scale."));
}

#[test]
fn doubtful_points_are_marked_where_they_stand() {
    let mut points = grid(&[4_096], &[1, 4, 8], 100.0, flat_after_four);
    assert!(!page(vec![document("a", None, points.clone())]).contains("class=\"doubt\""));
    points[0].warnings.push(Warning::new(Code::ServedFromCache, "9 % came from memory"));
    let mut tablet = document("a", None, points);
    tablet.device.system = Some("Android 5.1".into());
    let html = page(vec![tablet]);
    assert!(html.contains("9 % came from memory") && html.contains("served_from_cache"));
    assert!(html.contains("⚠ doubtful: served_from_cache</a>"));
    // In the claim that rests on it, in both tables, and in the figures' captions.
    assert_eq!(html.matches("class=\"doubt\"").count(), 3);
    assert_eq!(html.matches("Hollow or").count(), 2);
}
