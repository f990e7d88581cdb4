//! The choice of connections that give way where as many clients are connected as may be: a user has no more than others want.

use std::collections::BTreeMap;

/// A client that has chosen an export.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled<T> {
    /// The key by which its owner knows it.
    pub key: usize,
    /// The user of the client.
    pub user: u64,
    /// Whether the connection waits for nothing.
    pub is_idle: bool,
    /// Since when it is there, in any unit.
    pub since: T,
}

/// The connection that makes room for one more of a user; `None` if there is none: the user with the most gives the oldest idle one, unless the newcomer would
/// then have as many. One that is at work goes only if that user has more than half of all.
pub(super) fn to_give<T: Ord + Copy>(settled: &[Settled<T>], newcomer: u64) -> Option<usize> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    settled.iter().for_each(|client| *counts.entry(client.user).or_default() += 1);
    let own = counts.get(&newcomer).copied().unwrap_or(0);
    let (user, count) = counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > own + 1)?;
    let of_user = || settled.iter().filter(|client| client.user == user);
    let idle = of_user().filter(|client| client.is_idle).min_by_key(|client| client.since);
    let busy = || of_user().min_by_key(|client| client.since).filter(|_| 2 * count > settled.len());
    idle.or_else(busy).map(|client| client.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of users, the first the oldest; those that are at work are negative.
    fn settled(users: &[i64]) -> Vec<Settled<usize>> {
        let one =
            |(key, user): (usize, &i64)| Settled { key, user: user.unsigned_abs(), is_idle: *user > 0, since: key };
        users.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_user_with_the_most_gives_its_oldest_idle_one() {
        for (users, newcomer, given) in [
            (&[1, 1, 1, 1][..], 2, Some(0)),
            (&[-1, -1, 1, 1], 2, Some(2)),
            (&[-1, -1, -1, -1], 2, Some(0)),
            (&[1, 1, 1, 1], 1, None),
            (&[1, 1, 1, 2], 2, Some(0)),
            (&[2, 1, 1, 2], 2, None),
            (&[1, 2, 3, 4], 5, None),
            (&[-1, -1, 2, 3], 4, None),
            // Half of all is not more than half: what is at work stays.
            (&[-1, -1, -1, 2, 3, 3], 4, None),
            (&[], 1, None),
        ] {
            assert_eq!(to_give(&settled(users), newcomer), given, "{users:?} {newcomer}");
        }
    }

    /// Sixteen connections of one user, as `nbd-client -C 16` makes, are all kept as long as there is room; where there is none, each user can have its share.
    #[test]
    fn users_come_to_equal_shares_and_nobody_loses_below_them() {
        let mut connections = settled(&[1; 64]);
        for newcomer in [2; 40] {
            let Some(key) = to_give(&connections, newcomer) else { break };
            connections.retain(|client| client.key != key);
            let key = 100 + connections.iter().map(|client| client.key).max().unwrap();
            connections.push(Settled { key, user: newcomer, is_idle: true, since: key });
        }
        assert_eq!(connections.iter().filter(|client| client.user == 1).count(), 32);
        assert_eq!(connections.len(), 64);
    }
}
