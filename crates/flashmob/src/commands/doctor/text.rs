//! The findings as text: worst first; checks without problems only as a count, unless they have advice.

use std::fmt::Write;

use flashmob_results::diagnosis::{Check, Diagnosis, Outcome};

use crate::commands::tell::harmless;

/// The whole text. With `all`, checks that are well or do not apply have their own lines.
pub fn render(diagnosis: &Diagnosis, all: bool) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, diagnosis, all);
    out
}

fn write_all(out: &mut String, diagnosis: &Diagnosis, all: bool) -> std::fmt::Result {
    let of = |outcome: Outcome| diagnosis.checks.iter().filter(move |check| check.outcome == outcome);
    let count = |outcome: Outcome| of(outcome).count();
    for check in of(Outcome::Severe).chain(of(Outcome::Wrong)) {
        write_finding(out, check)?;
    }
    for check in of(Outcome::Unknown) {
        line(out, "unknown", check)?;
    }
    for check in of(Outcome::Well).filter(|check| all || !check.advice.is_empty()) {
        // Nothing is wrong, and something is worth to know.
        line(out, if check.advice.is_empty() { "well" } else { "note" }, check)?;
    }
    if all {
        for check in of(Outcome::NotApplicable) {
            line(out, "-", check)?;
        }
    }
    let wrong = count(Outcome::Severe) + count(Outcome::Wrong);
    let (well, unknown, other) = (count(Outcome::Well), count(Outcome::Unknown), count(Outcome::NotApplicable));
    let verdict = match wrong {
        0 => "no problems".to_string(),
        1 => "1 problem".to_string(),
        wrong => format!("{wrong} problems"),
    };
    let hint = if all || well + other == 0 { "" } else { " (-a shows all)" };
    writeln!(
        out,
        "{}: {verdict}; {well} passed, {unknown} unknown, {other} not applicable{hint}",
        harmless(&diagnosis.device.name())
    )?;
    if diagnosis.checks.iter().any(|check| check.can_fix) {
        writeln!(
            out,
            "'flashmob doctor --fix' as root applies the fixes marked with *; 'flashmob doctor --undo' reverts them."
        )?;
    }
    Ok(())
}

fn write_finding(out: &mut String, check: &Check) -> std::fmt::Result {
    let word = if check.outcome == Outcome::Severe { "SEVERE" } else { "WRONG" };
    writeln!(out, "{word:<8}{}: {}", check.name, harmless(&check.found))?;
    writeln!(out, "        effect {}", harmless(&check.cost))?;
    if !check.command.is_empty() {
        let mark = if check.can_fix { " *" } else { "" };
        writeln!(out, "        fix    {}{mark}", harmless(&check.command))?;
    }
    if !check.advice.is_empty() {
        writeln!(out, "        note   {}", harmless(&check.advice))?;
    }
    Ok(())
}

fn line(out: &mut String, word: &str, check: &Check) -> std::fmt::Result {
    write!(out, "{word:<8}{}: {}", check.name, harmless(&check.found))?;
    if check.advice.is_empty() { writeln!(out) } else { writeln!(out, " ({})", harmless(&check.advice)) }
}
