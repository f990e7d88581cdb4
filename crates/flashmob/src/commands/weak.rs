//! Weak nodes as the command line has them.

use flashmob_lab::cluster::{Weak, Weakness};
use flashmob_text::{exact_duration, parse_duration, parse_percent};

/// Parses `N:HOW=VALUE`.
pub fn parse(text: &str) -> Result<Weak, String> {
    let wanted = "must be N:flash=FACTOR, N:throttle=FACTOR, N:doze=TIME/PERIOD, N:loss=PERCENT or N:delay=TIME, such as 4:flash=2, 1:doze=200ms/2s or 1:loss=20%";
    parts(text).ok_or_else(|| wanted.to_string())
}

fn parts(text: &str) -> Option<Weak> {
    let (nodes, how) = text.split_once(':')?;
    let (key, value) = how.split_once('=')?;
    let factor = || value.parse().ok().filter(|factor: &f64| factor.is_finite());
    let by = match key {
        "flash" => Weakness::Flash(factor()?),
        "throttle" => Weakness::Throttled(factor()?),
        "doze" => {
            let (time, every) = value.split_once('/')?;
            Weakness::Dozes { every: parse_duration(every).ok()?, time: parse_duration(time).ok()? }
        }
        "loss" => Weakness::Lossy((parse_percent(value).ok()? * 10_000.0).round() as u32),
        "delay" => Weakness::Far(parse_duration(value).ok()?),
        _ => return None,
    };
    Some(Weak { nodes: nodes.parse().ok()?, by })
}

/// The text that [`parse`] makes the same of.
pub fn text(weak: Weak) -> String {
    let nodes = weak.nodes;
    match weak.by {
        Weakness::Flash(factor) => format!("{nodes}:flash={factor}"),
        Weakness::Throttled(factor) => format!("{nodes}:throttle={factor}"),
        Weakness::Dozes { every, time } => format!("{nodes}:doze={}/{}", exact_duration(time), exact_duration(every)),
        Weakness::Far(delay) => format!("{nodes}:delay={}", exact_duration(delay)),
        Weakness::Lossy(ppm) => format!("{nodes}:loss={}%", f64::from(ppm) / 10_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_weakness_is_read_and_written() {
        for wanted in
            ["4:flash=2", "1:throttle=1.5", "2:doze=200ms/2s", "2:doze=1500us/1s", "1:loss=0.5%", "3:delay=20ms"]
        {
            assert_eq!(text(parse(wanted).unwrap()), wanted);
        }
        assert_eq!(parse("2:doze=0.2s/2000ms"), parse("2:doze=200ms/2s"));
    }

    #[test]
    fn anything_else_is_told_what_is_accepted() {
        for wrong in [
            "",
            "4",
            "4:",
            "4:flash",
            "4:flash=",
            "x:flash=2",
            "-1:flash=2",
            "4:flash=nan",
            "1:doze=2s",
            "1:doze=2s/",
            "1:loss=200%",
            "1:delay=soon",
        ] {
            assert!(parse(wrong).unwrap_err().contains("such as 4:flash=2"), "{wrong}");
        }
    }
}
