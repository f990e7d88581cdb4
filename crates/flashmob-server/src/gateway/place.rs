//! The announced addresses of a node, and the one that a link tries next.
//!
//! An announcement may be wrong or forged. So its address is tried beside others: the one where the node welcomed a link and
//! the configured one keep their turns, whatever is announced. Only a welcome proves an address; anyone may accept a connection.

use std::time::Duration;

use flashmob_core::units::Time;

/// Minimum interval at which attempts are abandoned for another place.
const MOVE_EVERY: Duration = Duration::from_secs(5);
/// Minimum interval at which moves of one node are told: anybody can announce any number of them.
const TELL_EVERY: Duration = Duration::from_secs(300);

/// The places of one node.
#[derive(Debug)]
pub(super) struct Place {
    configured: String,
    /// Where it was seen last, if not at the configured place.
    seen: Option<String>,
    /// Where it last welcomed a link.
    welcomed: Option<String>,
    /// When attempts were last turned to another place.
    moved: Option<Time>,
    /// When a move was last told, and how many were not since.
    told: Option<Time>,
    untold: u64,
}

/// A link's position among its node's places.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    next: usize,
    /// Where its last attempt went, and how often it had been welcomed until then.
    address: String,
    welcomes: u64,
}

impl Place {
    pub fn configured(address: String) -> Place {
        Place { configured: address, seen: None, welcomed: None, moved: None, told: None, untold: 0 }
    }

    /// Where it was seen, if that is not the configured place.
    pub fn seen(&self) -> Option<&str> {
        self.seen.as_deref()
    }

    /// The place where it is most likely.
    pub fn likeliest(&self) -> &str {
        self.seen().unwrap_or(&self.configured)
    }

    /// The address of a link's next attempt. `welcomes`: how often the link has been welcomed so far.
    pub fn next(&mut self, turn: &mut Turn, welcomes: u64) -> String {
        // The last place was right, so it is tried again.
        if !self.settle(turn, welcomes) {
            turn.address = self.at(turn.next).to_string();
            turn.next = turn.next.wrapping_add(1);
        }
        turn.address.clone()
    }

    fn at(&self, turn: usize) -> &str {
        let mut places = vec![self.likeliest()];
        for place in self.welcomed.iter().chain([&self.configured]) {
            if !places.contains(&place.as_str()) {
                places.push(place);
            }
        }
        places.get(turn % places.len()).copied().unwrap_or(&self.configured)
    }

    /// Notes whether a link was welcomed since its last attempt.
    fn settle(&mut self, turn: &mut Turn, welcomes: u64) -> bool {
        let was_right = std::mem::replace(&mut turn.welcomes, welcomes) != welcomes;
        if was_right {
            self.welcomed = Some(turn.address.clone());
            turn.next = 0;
        }
        was_right
    }

    /// Notes that it was seen at these addresses, likeliest first. Returns the place assumed before and the new one, if links
    /// should turn there.
    ///
    /// A move sooner than [`MOVE_EVERY`] after the last returns `None`: the place is noted and gets its turn, but no attempt is
    /// abandoned for it.
    pub fn moved_to(&mut self, now: Time, addresses: &[String]) -> Option<(String, String)> {
        let before = self.likeliest().to_string();
        let is_among = |known: &String| addresses.contains(known);
        if is_among(&before) {
            return None;
        }
        let address = if is_among(&self.configured) { self.configured.clone() } else { addresses.first()?.clone() };
        self.seen = (self.configured != address).then(|| address.clone());
        if self.moved.is_some_and(|at| now - at < MOVE_EVERY) {
            return None;
        }
        self.moved = Some(now);
        Some((before, address))
    }

    /// The line that tells of a move, unless one was told lately.
    pub fn line_of_move(&mut self, now: Time, before: &str, address: &str) -> Option<String> {
        if self.told.is_some_and(|at| now - at < TELL_EVERY) {
            self.untold += 1;
            return None;
        }
        self.told = Some(now);
        let untold = match std::mem::take(&mut self.untold) {
            0 => String::new(),
            count => format!("; it was announced at other places {count} times since this was last told"),
        };
        Some(format!("node at {before}: moved to {address}{untold}"))
    }

    /// A link turns to where its node is now.
    pub fn turn(&mut self, turn: &mut Turn, welcomes: u64) {
        self.settle(turn, welcomes);
        turn.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    /// Where attempts go that nobody welcomes.
    fn attempts(place: &mut Place, turn: &mut Turn, welcomes: u64, count: usize) -> Vec<String> {
        (0..count).map(|_| place.next(turn, welcomes)).collect()
    }

    #[test]
    fn a_place_keeps_its_turn_only_if_it_welcomed() {
        let (mut place, mut turn) = (Place::configured("a".into()), Turn::default());
        assert_eq!(attempts(&mut place, &mut turn, 0, 2), ["a", "a"]);
        assert_eq!(place.moved_to(at(0), &named(&["b", "c"])), Some(("a".into(), "b".into())));
        place.turn(&mut turn, 0);
        assert_eq!(attempts(&mut place, &mut turn, 0, 4), ["b", "a", "b", "a"]);
        // Welcomed at "a", the last one, once; then no more.
        assert_eq!(attempts(&mut place, &mut turn, 1, 3), ["a", "b", "a"]);
        assert_eq!((place.seen(), place.likeliest()), (Some("b"), "b"));
    }

    #[test]
    fn moves_without_end_are_a_line_each_five_minutes_and_their_number() {
        let mut place = Place::configured("a".into());
        let mut lines = Vec::new();
        for second in (0..=600).step_by(5) {
            let elsewhere = if second % 10 == 0 { "b" } else { "c" };
            let (before, address) = place.moved_to(at(second), &named(&[elsewhere])).unwrap();
            lines.extend(place.line_of_move(at(second), &before, &address));
        }
        let since = "; it was announced at other places 59 times since this was last told";
        let again = format!("node at c: moved to b{since}");
        assert_eq!(lines, ["node at a: moved to b", &again, &again]);
    }

    #[test]
    fn where_it_welcomed_is_not_forgotten_for_what_is_told_later() {
        let (mut place, mut turn) = (Place::configured("a".into()), Turn::default());
        assert!(place.moved_to(at(0), &named(&["b"])).is_some());
        place.turn(&mut turn, 0);
        assert_eq!(attempts(&mut place, &mut turn, 0, 1), ["b"]);
        assert!(place.moved_to(at(9), &named(&["c"])).is_some());
        place.turn(&mut turn, 1);
        assert_eq!(attempts(&mut place, &mut turn, 1, 4), ["c", "b", "a", "c"]);
    }

    #[test]
    fn of_several_addresses_one_that_is_known_stays_and_quick_moves_take_nothing_away() {
        let mut place = Place::configured("a".into());
        assert_eq!(place.moved_to(at(0), &named(&["b", "a"])), None, "it is in use");
        assert_eq!(place.moved_to(at(0), &[]), None);
        assert!(place.moved_to(at(0), &named(&["b"])).is_some());
        assert_eq!(place.moved_to(at(4), &named(&["c"])), None, "too soon");
        assert_eq!(place.seen(), Some("c"), "but noted");
        assert_eq!(place.moved_to(at(5), &named(&["d", "a"])), Some(("c".into(), "a".into())));
        assert_eq!(place.seen(), None);
    }
}
