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
    /// Some of the points that it rests on are doubtful.
    pub doubtful: bool,
}

/// Those about clusters; each has one finding, for there is one cluster.
#[must_use]
pub fn lines(claims: &[Claim]) -> Vec<Line<'_>> {
    claims
        .iter()
        .map(|claim| {
            let finding = claim.findings.first();
            let missing = claim.lacking.first().map_or("nothing of it was measured", |(_, what)| what.as_str());
            Line {
                claim: claim.id,
                words: claim.words,
                criterion: claim.criterion,
                verdict: match finding.map(|f| f.verdict) {
                    Some(Verdict::Holds) => "holds",
                    Some(Verdict::DoesNotHold) => "does_not_hold",
                    None => "not_measured",
                },
                here: finding.map_or(missing.to_string(), |f| f.numbers.clone()),
                paper: claim.paper,
                doubtful: finding.is_some_and(|f| !f.doubts.is_empty()),
            }
        })
        .collect()
}

/// For people.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let doubt = if line.doubtful { " (doubtful)" } else { "" };
        text.push_str(&format!("{}  {}{doubt}: {}\n", line.claim, line.verdict.replace('_', " "), line.words));
        for (who, words) in [("here", line.here.as_str()), ("P1", line.paper)] {
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
    use super::*;

    #[test]
    fn each_claim_has_both_figures() {
        let line = |verdict, here: &str, doubtful| Line {
            claim: "C4",
            words: "One node.",
            criterion: "90 %",
            verdict,
            here: here.into(),
            paper: "2,100/s",
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
