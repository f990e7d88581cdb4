//! The words of findings, and their order.

use flashmob_core::condition::{Condition, Crossed, LastPause};
use flashmob_core::diagnosis::{Kind, Trouble};

use super::*;
use crate::admin::samples;
use crate::status::condition::ConditionReport;
use crate::status::failures::FailedReport;
use crate::status::report::NodeOfVolume;

fn trouble(kind: Kind, value: f64, others: f64, share: Option<f64>) -> String {
    of_trouble(&Trouble { node: 0, kind, value, others, share }, None, Some("10.0.0.5:40112")).sentence(&[])
}

#[test]
fn troubles_are_sentences_with_figures_and_remedies() {
    let expected = [
        (
            trouble(Kind::HasSlowFlash, 12_400.0, 300.4, Some(0.713)),
            "its flash takes 12 ms for a piece, those of the others 300 us, 71 % of the time of a piece: examine it there with `flashmob doctor`",
        ),
        (
            trouble(Kind::Loses, 51.0, 0.0, None),
            "packets are lost: 5.1 % of its segments are sent again or come behind a gap, 0.0 % of those of the others; move it nearer",
        ),
        (
            trouble(Kind::LacksProcessor, 612.0, 30.0, None),
            "it waits for a processor for 61 % of the time, the others for 3.0 %: end other",
        ),
        (trouble(Kind::Pauses, 1.6e6, 0.0, None), "it stands still, for 1.6 s at a time: keep the device awake"),
        (
            trouble(Kind::IsFlooded, 256.0, 8.0, None),
            "client 10.0.0.5:40112 has 256 of 264 requests in hand, and fills its queue: let",
        ),
        (
            trouble(Kind::HasSmallCache, 120.0, 931.0, Some(0.5)),
            "its page cache answers 12 % of what is asked, those of the others 93 %",
        ),
    ];
    for (sentence, begin) in expected {
        assert!(sentence.starts_with(begin), "{sentence}");
    }
}

#[test]
fn a_pause_that_the_node_reports_is_told_with_its_reason() {
    let trouble = Trouble { node: 0, kind: Kind::Pauses, value: 0.0, others: 0.0, share: None };
    let pause = LastPause { lasted_ms: 4_200, reason: "the process was stopped".to_string() };
    let finding = of_trouble(&trouble, Some(&pause), None);
    assert!(finding.sentence(&[]).starts_with("it paused 4.2 s: the process was stopped; keep the device awake"));
}

#[test]
fn limits_of_a_device_have_causes_and_remedies() {
    let mut volumes = samples::gateway().gateway.unwrap().volumes;
    let crossed = Crossed { low_battery: true, hot: true, little_space: true };
    let condition = Condition {
        battery_percent: Some(9),
        celsius_tenths: Some(480),
        free_bytes: Some(1 << 20),
        unallocated_bytes: Some(1 << 30),
        crossed,
        ..Condition::default()
    };
    let node = &mut volumes[0].nodes[0];
    (node.condition, node.refusal, node.no_io) = (Some(ConditionReport::of(&condition, None, None)), None, false);
    let findings = of_volumes(&volumes, 0);
    for (cause, found, remedy) in [
        (Cause::Battery, "its battery is at 9 % and not charging", "plug it in before it switches off"),
        (
            Cause::Heat,
            "it is hot (48.0 °C) and will slow down",
            "take its case off, give it air, charge it more slowly",
        ),
        (Cause::Space, "its extent has yet to take 1 GiB and only 1 MiB are free", "writes will fail"),
    ] {
        let finding = findings.iter().find(|finding| finding.cause == cause).unwrap();
        assert!(finding.found == found && finding.remedy.starts_with(remedy), "{finding:?}");
        assert_eq!((finding.volume, finding.node), (Some(0), Some(0)));
    }
}

#[test]
fn the_worst_is_first_and_notes_are_last() {
    let finding = |cause, severity| Finding::new(cause, severity, "found", "");
    let mut findings = vec![
        finding(Cause::Modelled, Severity::Note),
        finding(Cause::Insecure, Severity::Wrong),
        finding(Cause::Flash, Severity::Wrong).of_node(0, 3),
        finding(Cause::Flash, Severity::Wrong).of_node(0, 1),
        finding(Cause::NotLinked, Severity::Severe),
    ];
    sort(&mut findings);
    let order: Vec<(Cause, Option<usize>)> = findings.iter().map(|finding| (finding.cause, finding.node)).collect();
    let flash = [(Cause::Flash, Some(1)), (Cause::Flash, Some(3))];
    assert_eq!(order[..1], [(Cause::NotLinked, None)]);
    assert_eq!(order[1..3], flash);
    assert_eq!(order[3..], [(Cause::Insecure, None), (Cause::Modelled, None)]);
    let mut sentences: Vec<String> = findings.iter().map(|finding| finding.sentence(&[])).collect();
    insert(&Finding::new(Cause::Map, Severity::Severe, "map", ""), &mut findings, &mut sentences);
    insert(&Finding::new(Cause::Insecure, Severity::Wrong, "open", ""), &mut findings, &mut sentences);
    assert_eq!([&*sentences[0], &*sentences[5]], ["map", "open"]);
    assert!(findings.iter().zip(&sentences).all(|(finding, sentence)| *sentence == finding.sentence(&[])));
}

#[test]
fn a_sentence_names_the_place_once() {
    let volumes = samples::gateway().gateway.unwrap().volumes;
    let finding = Finding::new(Cause::NotLinked, Severity::Severe, "not linked", "look");
    let (volume, node) = (&volumes[0].name, &volumes[0].nodes[1].name);
    assert_eq!(
        finding.clone().of_node(0, 1).sentence(&volumes),
        format!("volume {volume}, node {node}: not linked: look")
    );
    assert_eq!(finding.clone().of_volume(0).sentence(&volumes), format!("volume {volume}: not linked: look"));
    assert_eq!(finding.clone().of_node(7, 70).sentence(&volumes), "not linked: look");
    assert_eq!(finding.with_command("do it").sentence(&[]), "not linked: look");
    assert_eq!(
        Finding::new(Cause::Rot, Severity::Severe, "bad", "").with_command("do it").sentence(&[]),
        "bad: `do it`"
    );
}

#[test]
fn nobody_is_to_bring_back_nodes_where_none_is_away() {
    let mut nodes = samples::gateway().gateway.unwrap().volumes.swap_remove(0).nodes;
    nodes.extend(nodes.clone());
    nodes.iter_mut().for_each(|node| (node.state, node.is_paused) = ("ready".to_string(), false));
    nodes.iter_mut().for_each(|node| node.failures = Default::default());
    let of = |nodes: &[NodeOfVolume]| states::copies_remedy(nodes);
    assert!(of(&nodes).starts_with("switch off no node"), "{}", of(&nodes));
    let failed = FailedReport { op: "writes".to_string(), reason: "full".to_string(), count: 1, seconds_ago: 1.0 };
    nodes[0].failures.failing.push(failed);
    assert!(of(&nodes).starts_with("mend the devices that fail"), "{}", of(&nodes));
    nodes[1].state = "waiting".to_string();
    assert!(of(&nodes).starts_with("bring back the nodes that are away"), "{}", of(&nodes));
}
