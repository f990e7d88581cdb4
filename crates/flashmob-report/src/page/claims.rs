//! The claims, each with its verdict for each device and the figures behind it.

use maud::{Markup, html};

use super::tags;
use crate::claims::{Claim, Finding, Missing, Subject, Verdict};
use crate::entry::Entry;
use crate::words;

/// The verdict on a claim over all of its findings ([`Claim::verdict`]), as CSS class and text. Where it fails for some, it says for how many it holds.
pub fn overall(claim: &Claim) -> (&'static str, String) {
    let Some(verdict) = claim.verdict() else { return ("open", "– not measured".into()) };
    let holding = claim.findings.iter().filter(|finding| finding.verdict.is_met()).count();
    if verdict == Verdict::DoesNotHold && holding > 0 {
        let judged = claim.findings.iter().filter(|f| f.verdict != Verdict::TooFewRepetitions).count();
        return ("mixed", format!("± holds for {holding} of {judged}"));
    }
    told(verdict)
}

/// A verdict as CSS class and text.
fn told(verdict: Verdict) -> (&'static str, String) {
    let (class, text) = match verdict {
        Verdict::Holds => ("holds", "✓ holds"),
        Verdict::Fitted => ("mixed", "≈ fitted"),
        Verdict::DoesNotHold => ("fails", "✗ does not hold"),
        Verdict::TooFewRepetitions => ("open", "– too few repetitions"),
    };
    (class, text.into())
}

pub fn section(entries: &[Entry], claims: &[Claim]) -> Markup {
    let about = |subject| claims.iter().any(|claim| claim.subject == subject);
    html! {
        @if about(Subject::Cluster) {
            p {
                "Claims about clusters go by medians over the repetitions that are not void, for one to eight nodes, with the limits that each names. "
                "A node's own limit is what its flash does alone, unsorted: sorting may gain on top of it. Of real nodes it is the most that "
                "the disk of one did in random reads with four threads or more, in the result that the verdict names."
            }
        }
        @if about(Subject::Network) {
            p {
                "Claims about networks go by medians of what arrived, over the repetitions that are not void, with the limits that each names. RTT is what was added to the path; "
                "window / RTT is what a receiver's window lets through in each round trip."
            }
        }
        @if about(Subject::Device) { p {
            "For a device rates are medians over the repetitions. Two differ, or one is faster, if they are more than 10 % apart and their repetitions are as well: by a rank test "
            "(Mann-Whitney, p < 0.05) with four repetitions or more on each side, by ranges that do not touch with fewer. Reads from a warm page cache never count."
        } }
        @for claim in claims {
            div.claim id=(claim.id) {
                b { (claim.id) }
                div {
                    p.words { (claim.words) }
                    p.muted { (claim.source) ". Holds if: " (claim.criterion) }
                    @if !claim.paper.is_empty() { p.muted { "In the paper: " (claim.paper) "." } }
                    @if !claim.on_phone.is_empty() { p.muted { "On a phone or tablet: " (super::with_code(claim.on_phone)) "." } }
                    ul.findings {
                        @for finding in &claim.findings { (item(entries, finding)) }
                        @for (at, missing) in &claim.lacking {
                            li {
                                (verdict("open", "– not measured"))
                                span { @if let Some(entry) = entries.get(*at) { strong { (entry.name) } ": " } (missing.what) ". Measured " (measurement(entries.get(*at), claim, missing)) "." }
                            }
                        }
                        @if claim.findings.is_empty() && claim.lacking.is_empty() {
                            li { (verdict("open", "– not measured")) span { "Would be measured by " code { (claim.command) } (claim.measured_on) "." } }
                        } @else if !claim.without.is_empty() && claim.id != "C1" {
                            li { (verdict("open", "– not measured")) span.muted { (without(entries, claim)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The command that measures what is missing, and its conditions. A phone's is named above: the others run on the computer.
fn measurement(entry: Option<&Entry>, claim: &Claim, missing: &Missing) -> Markup {
    if entry.is_some_and(Entry::is_android) && !claim.on_phone.is_empty() {
        return html! { "as said above of a phone or tablet" };
    }
    html! {
        "by "
        @match &missing.command {
            Some(command) => { code { (command) } (missing.measured_on) }
            None => { code { (claim.command) } (claim.measured_on) }
        }
    }
}

fn without(entries: &[Entry], claim: &Claim) -> String {
    let names: Vec<String> = claim.without.iter().filter_map(|at| entries.get(*at)).map(|e| e.name.clone()).collect();
    words::list(&names)
}

fn verdict(class: &str, text: &str) -> Markup {
    html! { span class=(format!("verdict {class}")) { (text) } }
}

fn item(entries: &[Entry], finding: &Finding) -> Markup {
    let of: Vec<&Entry> = finding.entries.iter().filter_map(|at| entries.get(*at)).collect();
    let doubts: Vec<String> = finding.doubts.iter().map(|code| words::snake(&format!("{code:?}"))).collect();
    let (class, text) = told(finding.verdict);
    html! {
        li {
            (verdict(class, &text))
            span {
                @for (nth, entry) in of.iter().enumerate() {
                    @if nth > 0 { " against " }
                    strong { (entry.name) }
                    (tags(entry))
                }
                @if !finding.setting.is_empty() { " (" (finding.setting) ")" }
                ": " (finding.numbers) "."
                @if finding.verdict == Verdict::Fitted { " " span.muted { "The model was fitted to this claim, so this verdict is no evidence." } }
                @if let (false, Some(at)) = (doubts.is_empty(), finding.entries.first()) {
                    " " a.doubt href=(format!("#w{at}")) { "⚠ doubtful: " (words::list(&doubts)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::builder::report;
    use crate::tests::net_builder::networked;

    fn claim(verdicts: &[Verdict]) -> Claim {
        let finding = |verdict: &Verdict| Finding {
            entries: vec![0],
            setting: String::new(),
            verdict: *verdict,
            numbers: "10 %".into(),
            doubts: Vec::new(),
        };
        let any = report(vec![networked(Vec::new())]).claims().remove(0);
        Claim { findings: verdicts.iter().map(finding).collect(), lacking: Vec::new(), ..any }
    }

    #[test]
    fn one_verdict_over_several_findings() {
        use crate::claims::Verdict::{DoesNotHold, Fitted, Holds, TooFewRepetitions};
        let cases: [(&[Verdict], Option<Verdict>, &str, bool); 9] = [
            (&[], None, "– not measured", false),
            (&[Holds, Holds], Some(Holds), "✓ holds", true),
            (&[Fitted, Fitted], Some(Fitted), "≈ fitted", true),
            (&[Fitted, Holds], Some(Holds), "✓ holds", true),
            (&[TooFewRepetitions], Some(TooFewRepetitions), "– too few repetitions", false),
            (&[Holds, TooFewRepetitions], Some(TooFewRepetitions), "– too few repetitions", false),
            (&[Fitted, TooFewRepetitions], Some(TooFewRepetitions), "– too few repetitions", false),
            (&[DoesNotHold, TooFewRepetitions], Some(DoesNotHold), "✗ does not hold", true),
            (&[Holds, DoesNotHold, TooFewRepetitions], Some(DoesNotHold), "± holds for 1 of 2", true),
        ];
        for (verdicts, verdict, text, is_judged) in cases {
            let claim = claim(verdicts);
            assert_eq!(claim.verdict(), verdict, "{verdicts:?}");
            assert_eq!((overall(&claim).1.as_str(), claim.is_judged()), (text, is_judged), "{verdicts:?}");
        }
    }
}
