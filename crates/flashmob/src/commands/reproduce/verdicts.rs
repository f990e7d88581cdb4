//! The table at the end: each claim, whether it holds here, our figures and the paper's.

use flashmob_report::claims::{Claim, Verdict};
use serde::Serialize;

/// Words of a line of the table.
const WIDTH: usize = 100;

/// One claim as programs read it.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// `C4`.
    pub claim: &'a str,
    /// What it says.
    pub words: &'a str,
    /// When it is said to hold.
    pub criterion: &'a str,
    /// `holds`, `does_not_hold` or `not_measured`.
    pub verdict: &'static str,
    /// Our figures, or what is missing.
    pub here: String,
    /// The paper's.
    pub paper: &'a str,
    /// Which paper.
    #[serde(skip)]
    pub source: &'a str,
    /// Some of the points that it rests on are doubtful.
    pub doubtful: bool,
}

/// A line for each. Several findings of a claim, such as both ways of a path, are one line: it holds if it holds in all of them.
#[must_use]
pub fn lines(claims: &[Claim]) -> Vec<Line<'_>> {
    claims.iter().map(line).collect()
}

fn line(claim: &Claim) -> Line<'_> {
    let missing = claim.lacking.first().map_or("nothing of it was measured", |(_, what)| what.as_str());
    let numbers = claim.findings.iter().map(|f| match f.setting.as_str() {
        "" => f.numbers.clone(),
        setting => format!("{setting}: {}", f.numbers),
    });
    let here = numbers.collect::<Vec<_>>().join("; ");
    Line {
        claim: claim.id,
        words: claim.words,
        criterion: claim.criterion,
        verdict: match claim.findings.as_slice() {
            [] => "not_measured",
            all if all.iter().all(|f| f.verdict == Verdict::Holds) => "holds",
            _ => "does_not_hold",
        },
        here: if here.is_empty() { missing.to_string() } else { here },
        source: claim.source.split(',').next().unwrap_or_default(),
        paper: claim.paper,
        doubtful: claim.findings.iter().any(|f| !f.doubts.is_empty()),
    }
}

/// For people.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let doubt = if line.doubtful { " (doubtful)" } else { "" };
        text.push_str(&format!("{}  {}{doubt}: {}\n", line.claim, line.verdict.replace('_', " "), line.words));
        for (who, words) in [("here", line.here.as_str()), (line.source, line.paper)] {
            for (nth, part) in wrapped(words).iter().enumerate() {
                text.push_str(&format!("      {:<6}{part}\n", if nth == 0 { who } else { "" }));
            }
        }
    }
    text
}

/// Broken at blanks.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
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
            findings,
            without: Vec::new(),
            lacking: vec![(0, "one way was not measured".into())],
        }
    }

    fn finding(verdict: Verdict, setting: &str) -> Finding {
        let (setting, numbers) = (setting.to_string(), "10 %".to_string());
        Finding { entries: vec![0], setting, verdict, numbers, doubts: Vec::new(), single: false }
    }

    #[test]
    fn several_findings_of_a_claim_are_one_line() {
        let (holds, fails) = (finding(Verdict::Holds, "reno"), finding(Verdict::DoesNotHold, "cubic"));
        let doubtful = Finding { doubts: vec![Code::Late], ..fails };
        let claims = [claim(vec![holds.clone()]), claim(vec![holds, doubtful]), claim(Vec::new())];
        let told: Vec<_> = lines(&claims).into_iter().map(|l| (l.verdict, l.here, l.doubtful)).collect();
        assert_eq!(told[0], ("holds", "reno: 10 %".to_string(), false));
        assert_eq!(told[1], ("does_not_hold", "reno: 10 %; cubic: 10 %".to_string(), true));
        assert_eq!(told[2], ("not_measured", "one way was not measured".to_string(), false));
        assert!(table(&lines(&claims)).contains("\n      P4    collapses\n"));
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
            doubtful,
        };
        let long = "figure ".repeat(30);
        let text = table(&[line("does_not_hold", "900/s", true), line("not_measured", long.trim(), false)]);
        assert!(text.starts_with(
            "C4  does not hold (doubtful): One node.\n      here  900/s\n      P1    2,100/s\nC4  not measured: "
        ));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 12), "{text}");
        assert_eq!(text.matches("figure").count(), 30);
    }
}
