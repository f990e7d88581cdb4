//! Whether a device is fit to be scrubbed: charging or without a battery, cool, and not in somebody's hands.

use crate::condition::Condition;

/// Why a device should not be scrubbed now; `None` if it may. What is not known is no reason.
pub fn unfit(condition: &Condition) -> Option<&'static str> {
    let reasons = [
        (condition.charging == Some(false), "is not charging"),
        (condition.crossed.hot || condition.thermal_status.is_some_and(|status| status > 0), "is hot"),
        (condition.screen_on == Some(true), "has its screen on"),
        (condition.power_save == Some(true), "saves power"),
    ];
    reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Crossed;

    #[test]
    fn a_device_is_fit_unless_something_is_known_against_it() {
        let known = Condition {
            battery_percent: Some(80),
            charging: Some(true),
            celsius_tenths: Some(301),
            screen_on: Some(false),
            thermal_status: Some(0),
            power_save: Some(false),
            ..Condition::default()
        };
        for (condition, expected) in [
            (Condition::default(), None),
            (known.clone(), None),
            (Condition { charging: Some(false), ..known.clone() }, Some("is not charging")),
            (Condition { thermal_status: Some(1), ..known.clone() }, Some("is hot")),
            (Condition { crossed: Crossed { hot: true, ..Crossed::default() }, ..known.clone() }, Some("is hot")),
            (Condition { screen_on: Some(true), ..known.clone() }, Some("has its screen on")),
            (Condition { power_save: Some(true), ..known.clone() }, Some("saves power")),
            (Condition { crossed: Crossed { little_space: true, ..Crossed::default() }, ..known }, None),
        ] {
            assert_eq!(unfit(&condition), expected, "{condition:?}");
        }
    }
}
