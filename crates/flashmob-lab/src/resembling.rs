//! The known name that resembles an unknown one.

/// The one of `known` that was probably meant by `name`: a third of the letters may be wrong.
pub(crate) fn resembling(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let name = name.to_lowercase().replace('_', "-");
    if name.chars().count() > 64 {
        return None;
    }
    let inside = known.iter().find(|k| name.len() >= 3 && k.contains(name.as_str())).copied();
    let slip = known
        .iter()
        .map(|&k| (strsim::damerau_levenshtein(&name, k), k))
        .filter(|(distance, k)| *distance <= name.chars().count().max(k.len()) / 3)
        .min()
        .map(|(_, k)| k);
    slip.or(inside)
}

/// The end of a message about an unknown name.
pub(crate) fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"))
}
