//! A reader of both text forms that forgives nothing, for tests.

use std::collections::{BTreeMap, HashSet};

use super::Format;

/// One line with a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

struct Family {
    name: String,
    kind: String,
    samples: Vec<Sample>,
}

/// All samples of `text`.
///
/// # Errors
/// What breaks the rules of `format`, and in which line.
pub(crate) fn parse(text: &str, format: Format) -> Result<Vec<Sample>, String> {
    let mut lines = text.strip_suffix('\n').ok_or("the last line has no end")?.split('\n').collect::<Vec<_>>();
    if format == Format::OpenMetrics && lines.pop() != Some("# EOF") {
        return Err("no # EOF at the end".to_string());
    }
    let mut families: Vec<Family> = Vec::new();
    let mut help: Option<&str> = None;
    for line in lines {
        let at = |why: &str| format!("{why}: {line:?}");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').ok_or_else(|| at("no text"))?;
            if text.is_empty() || help.is_some() || families.iter().any(|f| f.name == name) {
                return Err(at("HELP is empty, double or of a family that was before"));
            }
            help = Some(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| at("no type"))?;
            if help.take() != Some(name) || !name_is_good(name, true) {
                return Err(at("TYPE without HELP, or a bad name"));
            }
            if name.ends_with("_total") != (kind == "counter" && format == Format::Prometheus) {
                return Err(at("_total and the type disagree"));
            }
            families.push(Family { name: name.to_string(), kind: kind.to_string(), samples: vec![] });
        } else if line.starts_with('#') || line.is_empty() {
            return Err(at("a comment that tells nothing"));
        } else {
            let sample = sample(line).map_err(|e| at(&e))?;
            let family = families.last_mut().ok_or_else(|| at("a sample before any TYPE"))?;
            if help.is_some() || !belongs(&sample.name, family, format) {
                return Err(at("not a sample of the family above"));
            }
            if family.kind != "gauge" && !(sample.value.is_finite() && sample.value >= 0.0) {
                return Err(at("not a count"));
            }
            family.samples.push(sample);
        }
    }
    let mut seen = HashSet::new();
    for family in &families {
        if family.samples.is_empty() {
            return Err(format!("{} has no samples", family.name));
        }
        for sample in &family.samples {
            if !seen.insert(format!("{} {:?}", sample.name, sample.labels)) {
                return Err(format!("twice: {sample:?}"));
            }
        }
        if family.kind == "histogram" {
            histogram(family)?;
        }
    }
    Ok(families.into_iter().flat_map(|f| f.samples).collect())
}

fn belongs(sample: &str, family: &Family, format: Format) -> bool {
    let suffixes: &[&str] = match (&*family.kind, format) {
        ("gauge", _) | ("counter", Format::Prometheus) => &[""],
        ("counter", Format::OpenMetrics) => &["_total"],
        ("histogram", _) => &["_bucket", "_sum", "_count"],
        _ => &[],
    };
    sample.strip_prefix(&*family.name).is_some_and(|suffix| suffixes.contains(&suffix))
}

fn histogram(family: &Family) -> Result<(), String> {
    let mut groups: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        labels.remove("le");
        groups.entry(format!("{labels:?}")).or_default().push(sample);
    }
    for (labels, samples) in groups {
        let all = |suffix: &str| {
            let name = format!("{}{suffix}", family.name);
            samples.iter().filter(|s| s.name == name).copied().collect::<Vec<_>>()
        };
        let (buckets, sums, counts) = (all("_bucket"), all("_sum"), all("_count"));
        let les = buckets.iter().map(|b| match b.labels.get("le").map(String::as_str) {
            Some("+Inf") => Ok(f64::INFINITY),
            Some(le) => le.parse::<f64>().map_err(|e| format!("{e}: {le}")),
            None => Err("a bucket without le".to_string()),
        });
        let les = les.collect::<Result<Vec<f64>, _>>()?;
        let last = buckets.last().ok_or("no buckets")?;
        let good = les.is_sorted_by(|a, b| a < b)
            && les.last() == Some(&f64::INFINITY)
            && buckets.is_sorted_by(|a, b| a.value <= b.value)
            && counts.iter().map(|c| c.value).eq([last.value])
            && sums.len() == 1;
        if !good {
            return Err(format!("{} {labels} is no histogram: {buckets:?} {counts:?} {sums:?}", family.name));
        }
    }
    Ok(())
}

fn sample(line: &str) -> Result<Sample, String> {
    let name_end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, rest) = line.split_at(name_end);
    if !name_is_good(name, true) {
        return Err("a bad name".to_string());
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    if value.is_empty() || !value.chars().all(|c| "+-.0123456789eE".contains(c)) {
        return Err("not a value".to_string());
    }
    let value = value.parse().map_err(|e| format!("{e}"))?;
    Ok(Sample { name: name.to_string(), labels, value })
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !name_is_good(name, false) || name.starts_with("__") {
            return Err(format!("a bad label name {name:?}"));
        }
        let mut value = String::new();
        let mut chars = after.chars();
        loop {
            match chars.next().ok_or("a label value without an end")? {
                '"' => break,
                '\\' => value.push(match chars.next() {
                    Some('\\') => '\\',
                    Some('"') => '"',
                    Some('n') => '\n',
                    other => return Err(format!("a bad escape {other:?}")),
                }),
                c => value.push(c),
            }
        }
        if labels.insert(name.to_string(), value).is_some() {
            return Err(format!("label {name} twice"));
        }
        let after = chars.as_str();
        match (after.strip_prefix(','), after.strip_prefix('}')) {
            (Some(more), _) => rest = more,
            (None, Some(end)) => return Ok((labels, end)),
            (None, None) => return Err("neither , nor } after a label".to_string()),
        }
    }
}

fn name_is_good(name: &str, colons: bool) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (colons && c == ':');
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

#[test]
fn the_strict_reader_is_strict() {
    let good = "# HELP a x\n# TYPE a gauge\na{b=\"c\"} 1\n";
    assert_eq!(parse(good, Format::Prometheus).map(|s| s.len()), Ok(1));
    assert_eq!(parse(&format!("{good}# EOF\n"), Format::OpenMetrics).map(|s| s.len()), Ok(1));
    for bad in [
        "",
        "a 1\n",
        "# HELP a x\n# TYPE a gauge\n",
        "# HELP a x\n# TYPE a gauge\na 1",
        "# TYPE a gauge\na 1\n",
        "# HELP a x\n# TYPE a gauge\na 1\na 1\n",
        "# HELP a x\n# TYPE a gauge\nb 1\n",
        "# HELP a x\n# TYPE a gauge\na NaN\n",
        "# HELP a x\n# TYPE a gauge\na{b=\"c\\x\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na{b=\"c\"d\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n",
        "# HELP a x\n# TYPE a gauge\na{1b=\"c\"} 1\n",
        "# HELP a x\n# TYPE a counter\na 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total -1\n",
        "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
    ] {
        assert!(parse(bad, Format::Prometheus).is_err(), "{bad}");
    }
    for bad in [good.to_string(), "# HELP a_total x\n# TYPE a_total counter\na_total 1\n# EOF\n".to_string()] {
        assert!(parse(&bad, Format::OpenMetrics).is_err(), "{bad}");
    }
}
