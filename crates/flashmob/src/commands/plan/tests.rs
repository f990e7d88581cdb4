//! Meaning of arguments, invalid combinations, and the answer's agreement with the schema.

use clap::Parser;
use flashmob_lab::plan::relief;
use flashmob_results::plan::{Method, Plan, Resource};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    plan: PlanArgs,
}

fn args(line: &str) -> Result<PlanArgs, String> {
    Line::try_parse_from(["plan"].into_iter().chain(line.split_whitespace()))
        .map(|line| line.plan)
        .map_err(|error| error.to_string())
}

fn settings(line: &str) -> Settings {
    args(line).unwrap().settings().unwrap()
}

fn refused(line: &str) -> String {
    match args(line) {
        Ok(args) => args.settings().unwrap_err().to_string(),
        Err(error) => error,
    }
}

/// The answer for a command line; with small settings, to be fast.
fn answer(line: &str) -> Plan {
    let settings = settings(line);
    record::of(&settings, &plan::plan(&settings, &mut |_, _| ()).unwrap()).unwrap()
}

#[test]
fn the_line_says_what_is_planned() {
    let issue = settings("--nodes 8 --flash emmc --wifi 11n --gateway wireless --read 1B");
    assert_eq!((issue.nodes, issue.air.name.as_str(), issue.gateway), (8, "11n", Attachment::Wireless));
    assert_eq!((issue.block_bytes, issue.read_percent, issue.outstanding), (1, 100.0, 2048));
    assert_eq!(issue.flash.unwrap().name, "emmc");
    let writes = settings("--write 4KiB --no-io --links 4 --aggregate 100 --cells 2");
    assert_eq!((writes.block_bytes, writes.read_percent, writes.flash), (4096, 0.0, None));
    assert_eq!((writes.outstanding, writes.cells, writes.batch), (6400, 2, BatchMode::Fixed(100)));
    assert_eq!(settings("--outstanding-total 3").outstanding, 3);
    assert_eq!(settings("--outstanding 3").outstanding, 24);
}

#[test]
fn what_cannot_be_is_named_with_the_remedy() {
    for (line, wanted) in [
        ("--cells 2 --gateway wireless", "add --gateway wired"),
        ("--cells 9", "use fewer cells or more nodes"),
        ("--cells 2 --air wan", "'wan' has no cells"),
        ("--read 4KiB --extent 1KiB", "use a larger --extent"),
        ("--read 1MiB", "reduce --outstanding-total"),
        ("--read 1 --write 1", "cannot be used with"),
        ("--outstanding 1 --outstanding-total 1", "cannot be used with"),
        ("--read 0", "1 byte to 32MiB"),
        ("--flash emcc", "did you mean 'emmc'"),
        ("--wifi 11m", "there is no modelled air '11m'"),
        ("--wifi 11n,los=1%", "did you mean 'loss'"),
        ("--batch 0", "auto, or a number"),
    ] {
        let said = refused(line);
        assert!(said.to_lowercase().contains(&wanted.to_lowercase()), "{line}: {said}");
    }
    assert_eq!(settings("--read 1MiB --outstanding 32").outstanding, 256);
    let settings = settings("--nodes 1000 --outstanding 65536");
    assert!(plan::plan(&settings, &mut |_, _| ()).unwrap_err().to_string().contains("outstanding"));
}

#[test]
fn the_answer_is_as_the_published_schema_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/plan-1.json");
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for line in ["--nodes 1 --outstanding 4", "--nodes 2 --no-io --outstanding-total 1 --air wan --gateway wireless"] {
        let json = serde_json::to_value(answer(line)).unwrap();
        let problems: Vec<String> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{line}: {problems:?}");
        let mut bad = json;
        bad["requests_per_second"] = "many".into();
        assert!(!schema.is_valid(&bad));
    }
}

#[test]
fn the_text_names_everything_and_says_that_it_is_modelled() {
    let mut plan = answer("--nodes 2 --flash nexus7-emmc --outstanding 64");
    let text = text::render(&plan);
    for wanted in [
        "2 nodes with flash 'nexus7-emmc' over '11n-2014', a wired gateway:",
        "reads of 1 B a second (MODELLED)",
        "p50 ",
        "p99 ",
        "128 requests outstanding",
        "requests per frame",
        "% of the nodes' own flash limit",
        "bottleneck  flash (twice as much: x",
        "devices with better flash (emmc): x",
        "how         ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
    plan.bottleneck = vec![Resource::Air, Resource::Flash];
    assert!(text::render(&plan).contains("bottleneck  shared between air (twice as much: x"), "{text}");
    plan.bottleneck.clear();
    plan.remedies.clear();
    (plan.method, plan.formula) = (Method::ClosedForm, Some("Little's law".into()));
    let text = text::render(&plan);
    for wanted in ["no single resource", "no known change gains", "by formula (Little's law)"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn every_resource_has_a_name_in_the_form() {
    assert_eq!(relief::Resource::ALL.len(), answer("--nodes 1 --outstanding 1").gains.len());
}
