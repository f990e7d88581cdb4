//! The table at the end: each claim, whether it holds here, the measured figures and the paper's.

use flashmob_report::claims::{Claim, Verdict};
use serde::Serialize;

/// Maximum width of the table's text.
const WIDTH: usize = 100;

/// One claim, for JSON.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// `C4`.
    pub claim: &'a str,
    /// Its text.
    pub words: &'a str,
    /// The criterion for it to hold.
    pub criterion: &'a str,
    /// `holds`, `fitted`, `does_not_hold`, `too_few_repetitions` or `not_measured`.
    pub verdict: &'static str,
    /// The measured figures, or what is missing.
    pub here: String,
    /// The paper's.
    pub paper: &'a str,
    /// How a phone or tablet measures it; empty if one has.
    pub on_phone: &'a str,
    /// The paper.
    #[serde(skip)]
    pub source: &'a str,
    /// Some of its points are doubtful.
    pub doubtful: bool,
}

/// A line for each claim. Several findings of a claim, such as both directions of a path, are one line: it holds if it holds in all.
/// `names` are those of results, shown if a claim has findings of several.
#[must_use]
pub fn lines<'a>(claims: &'a [Claim], names: &[String]) -> Vec<Line<'a>> {
    claims.iter().map(|claim| line(claim, names)).collect()
}

fn line<'a>(claim: &'a Claim, names: &[String]) -> Line<'a> {
    let missing = claim.lacking.first().map_or("not measured", |(_, missing)| missing.what.as_str());
    let several = claim.findings.windows(2).any(|two| two[0].entries != two[1].entries);
    let numbers = claim.findings.iter().map(|f| {
        let name = f.entries.first().filter(|_| several && f.entries.len() == 1).and_then(|at| names.get(*at));
        let parts: Vec<&str> = name.map(String::as_str).into_iter().chain([f.setting.as_str()]).collect();
        let which = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        if which.is_empty() { f.numbers.clone() } else { format!("{which}: {}", f.numbers) }
    });
    let here = numbers.collect::<Vec<_>>().join("; ");
    Line {
        claim: claim.id,
        words: claim.words,
        criterion: claim.criterion,
        verdict: name(claim.verdict()),
        here: if here.is_empty() { missing.to_string() } else { here },
        source: claim.source.split(',').next().unwrap_or_default(),
        paper: claim.paper,
        on_phone: claim.on_phone,
        doubtful: claim.findings.iter().any(|f| !f.doubts.is_empty()),
    }
}

/// A claim's verdict for JSON.
fn name(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        None => "not_measured",
        Some(Verdict::DoesNotHold) => "does_not_hold",
        Some(Verdict::TooFewRepetitions) => "too_few_repetitions",
        Some(Verdict::Holds) => "holds",
        Some(Verdict::Fitted) => "fitted",
    }
}

/// As text.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let doubt = if line.doubtful { " (doubtful)" } else { "" };
        text.push_str(&format!("{}  {}{doubt}: {}\n", line.claim, line.verdict.replace('_', " "), line.words));
        // For some claims the paper has only a figure without numbers.
        for (who, words) in
            [("here", line.here.as_str()), (line.source, line.paper)].into_iter().filter(|l| !l.1.is_empty())
        {
            for (nth, part) in flashmob_text::wrapped(words, WIDTH).iter().enumerate() {
                text.push_str(&format!("      {:<6}{part}\n", if nth == 0 { who } else { "" }));
            }
        }
    }
    text.push_str(&on_phones(lines));
    text
}

/// How a phone or tablet measures the claims that none has, each way once.
fn on_phones(lines: &[Line]) -> String {
    let mut ways: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines.iter().filter(|line| !line.on_phone.is_empty()) {
        match ways.iter_mut().find(|(way, _)| *way == line.on_phone) {
            Some((_, claims)) => claims.push(line.claim),
            None => ways.push((line.on_phone, vec![line.claim])),
        }
    }
    let mut text = if ways.is_empty() { String::new() } else { "On a phone or tablet:\n".to_string() };
    for (way, claims) in ways {
        text.push_str(&format!("{}\n", claims.join(", ")));
        text.extend(flashmob_text::wrapped(way, WIDTH).iter().map(|part| format!("      {part}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use flashmob_report::claims::{Finding, Subject};
    use flashmob_results::warning::Code;

    use super::*;

    fn claim(findings: Vec<Finding>) -> Claim {
        Claim {
            subject: Subject::Network,
            id: "C14",
            source: "P4, Fig. 7",
            words: "It collapses.",
            short: "",
            criterion: "half",
            paper: "collapses",
            command: "",
            measured_on: "",
            on_phone: "",
            findings,
            without: Vec::new(),
            lacking: vec![(0, "one way was not measured".into())],
        }
    }

    fn finding(verdict: Verdict, setting: &str) -> Finding {
        let (setting, numbers) = (setting.to_string(), "10 %".to_string());
        Finding { entries: vec![0], setting, verdict, numbers, doubts: Vec::new() }
    }

    #[test]
    fn several_findings_of_a_claim_are_one_line() {
        let (holds, fails) = (finding(Verdict::Holds, "reno"), finding(Verdict::DoesNotHold, "cubic"));
        let doubtful = Finding { doubts: vec![Code::Late], ..fails };
        let claims = [claim(vec![holds.clone()]), claim(vec![holds, doubtful]), claim(Vec::new())];
        let told: Vec<_> = lines(&claims, &[]).into_iter().map(|l| (l.verdict, l.here, l.doubtful)).collect();
        assert_eq!(told[0], ("holds", "reno: 10 %".to_string(), false));
        assert_eq!(told[1], ("does_not_hold", "reno: 10 %; cubic: 10 %".to_string(), true));
        assert_eq!(told[2], ("not_measured", "one way was not measured".to_string(), false));
        let verdict = |second| {
            let claim = claim(vec![finding(Verdict::Fitted, "reno"), finding(second, "cubic")]);
            lines(&[claim], &[])[0].verdict
        };
        assert_eq!([verdict(Verdict::Fitted), verdict(Verdict::TooFewRepetitions)], ["fitted", "too_few_repetitions"]);
        let other = Finding { entries: vec![1], ..finding(Verdict::Holds, "") };
        let both = [claim(vec![finding(Verdict::Holds, ""), other])];
        assert_eq!(lines(&both, &["ext4".into(), "xfs".into()])[0].here, "ext4: 10 %; xfs: 10 %");
        assert!(table(&lines(&claims, &[])).contains("\n      P4    collapses\n"));
    }

    #[test]
    fn each_claim_has_both_figures() {
        let line = |verdict, here: &str, doubtful| Line {
            claim: "C4",
            words: "One node.",
            criterion: "90 %",
            verdict,
            here: here.into(),
            paper: "2,100/s",
            source: "P1",
            on_phone: "`push` it",
            doubtful,
        };
        let long = "figure ".repeat(30);
        let text = table(&[line("does_not_hold", "900/s", true), line("not_measured", long.trim(), false)]);
        assert!(text.starts_with(
            "C4  does not hold (doubtful): One node.\n      here  900/s\n      P1    2,100/s\nC4  not measured: "
        ));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 12), "{text}");
        assert_eq!(text.matches("figure").count(), 30);
        assert!(text.ends_with("On a phone or tablet:\nC4, C4\n      `push` it\n"), "{text}");
    }
}
