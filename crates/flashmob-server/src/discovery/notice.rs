//! What multicast DNS says of a node: its announcement, or in a cluster with keys its mark alone.

use super::announcement::{Announcement, fitting};
use crate::keys::Mark;

/// The longest name of an instance, in bytes (RFC 6763, section 4.1.1).
const INSTANCE_BYTES_MAX: usize = 63;

/// What is said of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A node without keys.
    Open(Announcement),
    /// A node of a cluster with keys.
    Marked(Mark),
}

impl Notice {
    /// The name in a browser of services: the device's name, and enough of the identity to make it unique.
    #[must_use]
    pub fn instance_name(&self) -> String {
        match self {
            Notice::Open(about) => {
                let id = about.extent.short();
                let name = fitting(&about.name, INSTANCE_BYTES_MAX - id.len() - 3);
                if name.is_empty() { id } else { format!("{name} ({id})") }
            }
            Notice::Marked(mark) => mark.short(),
        }
    }

    /// The name of its host: one for each extent, as two nodes of one device must not share a name.
    pub(super) fn host(&self) -> String {
        let id = match self {
            Notice::Open(about) => about.extent.short(),
            Notice::Marked(mark) => mark.short(),
        };
        format!("flashmob-{id}.local.")
    }

    /// Whether it may change at any moment: the extent is free.
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Notice::Open(about) if about.volume.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::super::announcement::tests::sample;
    use super::*;
    use crate::keys::PublicKey;

    #[test]
    fn an_instance_has_a_name_for_people_that_is_its_own() {
        let name = |about| Notice::Open(about).instance_name();
        assert_eq!(name(sample()), "nexus7-a (abababab)");
        let long = Announcement { name: "é".repeat(31), ..sample() };
        assert!(name(long).len() <= INSTANCE_BYTES_MAX);
        assert_eq!(name(Announcement { name: String::new(), ..sample() }), "abababab");
    }

    #[test]
    fn a_mark_says_nothing_of_the_extent() {
        let marked = Notice::Marked(Mark::of(PublicKey::of([1; 32]).unwrap(), sample().extent));
        assert!(!marked.instance_name().contains("ab") && !marked.host().contains("abab"));
    }
}
