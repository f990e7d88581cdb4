// Lists of ranges, not of what is in them.
#![allow(clippy::single_range_in_vec_init)]

use super::*;
use proptest::prelude::*;

fn seeds(ranges: &[Range<u64>]) -> Seeds {
    let mut seeds = Seeds::default();
    ranges.iter().for_each(|range| seeds.insert(range.clone()));
    seeds
}

/// A file that does not exist yet, and its folder.
fn new_file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seeds");
    (folder, path)
}

fn open(path: &Path, own: &str) -> Campaign {
    Campaign::open(path, "copies", own, false).unwrap()
}

#[test]
fn what_has_passed_is_not_left_when_the_record_is_opened_again() {
    let (_folder, path) = new_file();
    let mut campaign = open(&path, "one");
    assert_eq!(campaign.left(10..30), [10..30]);
    campaign.add(&seeds(&[10..12, 14..20]), &[(12, "two\nlines".to_string())]).unwrap();
    campaign.add(&seeds(&[20..21]), &[]).unwrap();
    let left = [13..14, 21..30];
    assert_eq!(campaign.left(10..30), left);
    drop(campaign);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        "flashmob seeds 1 copies\nprogram one\npassed 10 12\npassed 14 20\nfailed 12 two lines\npassed 20 21\n"
    );
    let campaign = open(&path, "one");
    assert_eq!(campaign.left(10..30), left);
    assert_eq!(campaign.passed(&(10..30)), (9, 0));
    assert_eq!(campaign.failed(0..100).collect::<Vec<_>>(), [(12, "two lines")]);
    assert_eq!(campaign.failed(13..100).count(), 0, "of other seeds than were asked for");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn another_build_goes_on_only_if_asked_and_runs_again_what_failed() {
    let (_folder, path) = new_file();
    open(&path, "one").add(&seeds(&[0..5]), &[(5, "bad".to_string())]).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Campaign::open(&path, "copies", "two", false).unwrap_err();
    assert!(matches!(error, CampaignError::OtherProgram { passed: 5, .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let mut campaign = Campaign::open(&path, "copies", "two", true).unwrap();
    assert_eq!(campaign.left(0..10), [5..10]);
    assert_eq!((campaign.passed(&(0..10)), campaign.failed_elsewhere()), ((5, 5), 1));
    assert_eq!(campaign.failed(0..10).count(), 0);
    campaign.add(&seeds(&[5..7]), &[]).unwrap();
    drop(campaign);
    let campaign = open(&path, "two");
    assert_eq!(campaign.left(0..10), [7..10]);
    assert_eq!((campaign.passed(&(0..10)), campaign.failed_elsewhere()), ((7, 5), 0));
}

#[test]
fn other_files_are_refused_and_left_as_they_are() {
    let (_folder, path) = new_file();
    let whole = "flashmob seeds 1 copies\nprogram one\npassed 1 2\n";
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let error = Campaign::open(&path, "copies", "one", false).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        error
    };
    for text in ["a text", "a text\nof lines\n", "\n", "flashmob seeds 2 copies\n", "flashmob seeds 1 copies too"] {
        assert!(matches!(refused(text), CampaignError::Foreign(_)), "{text:?}");
    }
    assert!(matches!(refused("flashmob seeds 1 killed\n"), CampaignError::OtherFamily { .. }));
    let bad = [
        "passed 2 2",
        "passed 2 1",
        "passed 2",
        "passed x 3",
        "",
        "skipped 1 2",
        "program ",
        "failed x y",
        "passed 1 2 3",
    ];
    for line in bad {
        let error = refused(&format!("{whole}{line}\npassed 5 6\n"));
        assert!(matches!(error, CampaignError::Damaged { line: 4, .. }), "{line:?}: {error}");
    }
    let error = refused("flashmob seeds 1 copies\npassed 1 2\n");
    assert!(matches!(error, CampaignError::Damaged { line: 2, .. }), "of no program: {error}");
}

#[test]
fn a_record_that_was_cut_anywhere_is_read_as_far_as_its_lines_are_whole() {
    let (_folder, path) = new_file();
    let whole = "flashmob seeds 1 copies\nprogram one\npassed 0 4\nfailed 4 bad\npassed 5 9\n";
    for len in 0..=whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let mut campaign = open(&path, "one");
        let lines = whole[..len].matches('\n').count();
        let left = [vec![0..10], vec![0..10], vec![0..10], vec![4..10], vec![5..10], vec![9..10]];
        assert_eq!(campaign.left(0..10), left[lines], "{len}");
        campaign.add(&seeds(&[9..10]), &[]).unwrap();
        drop(campaign);
        let text = std::fs::read_to_string(&path).unwrap();
        let cut: String = whole.split_inclusive('\n').take(lines.max(2)).collect();
        assert_eq!(text, cut + "passed 9 10\n");
    }
}

#[test]
fn one_process_at_a_time_has_a_record() {
    let (_folder, path) = new_file();
    let first = open(&path, "one");
    assert!(matches!(Campaign::open(&path, "copies", "one", false), Err(CampaignError::InUse(_))));
    drop(first);
    open(&path, "one");
}

#[test]
fn a_file_that_cannot_be_opened_is_named() {
    let (folder, _) = new_file();
    let path = folder.path().join("none/seeds");
    let error = Campaign::open(&path, "copies", "one", false).unwrap_err();
    assert!(error.to_string().contains("none/seeds: "), "{error}");
}

proptest! {
    #[test]
    fn ranges_hold_what_was_put_into_them(
        ranges in prop::collection::vec((0u64..60, 0u64..12), 0..12),
        asked in (0u64..60, 0u64..60),
    ) {
        let mut model = BTreeSet::new();
        let mut seeds = Seeds::default();
        for (start, len) in ranges {
            seeds.insert(start..start + len);
            model.extend(start..start + len);
        }
        prop_assert_eq!(seeds.count(), model.len() as u64);
        prop_assert_eq!(seeds.ranges().flatten().collect::<BTreeSet<_>>(), model.clone());
        let ends: Vec<_> = seeds.ranges().collect();
        prop_assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", ends);
        let asked = asked.0..asked.0 + asked.1;
        let missing: Vec<u64> = seeds.missing(asked.clone()).into_iter().flatten().collect();
        prop_assert_eq!(missing, asked.filter(|seed| !model.contains(seed)).collect::<Vec<_>>());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", line in "(program|passed|failed)( [0-9]{1,21}){0,3}") {
        let (_folder, path) = new_file();
        for bytes in [text.clone(), format!("{MAGIC}copies\n{text}\n"), format!("{MAGIC}copies\nprogram one\n{line}\n")] {
            std::fs::write(&path, &bytes).unwrap();
            match Campaign::open(&path, "copies", "one", false) {
                Ok(campaign) => prop_assert!(campaign.left(0..100).iter().all(|part| part.end <= 100)),
                Err(_) => prop_assert_eq!(std::fs::read_to_string(&path).unwrap(), bytes),
            }
        }
    }
}
