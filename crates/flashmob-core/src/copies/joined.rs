//! Members that come and go: a node is added to a volume, and one that has no copies any more is removed from it.

use super::load::check_member;
use super::{ADDRESS_BYTES_MAX, MapError, MapImage, Member, unknown_extent};

impl MapImage {
    /// Where a member's node is, if that is on record.
    #[must_use]
    pub fn address(&self, member: u16) -> Option<&str> {
        self.addresses.get(&member).map(|(address, _)| address.as_str())
    }

    /// Whether a configuration named a member first, as far as that is on record.
    #[must_use]
    pub fn is_seed(&self, member: u16) -> bool {
        self.addresses.get(&member).is_none_or(|(_, is_seed)| *is_seed)
    }

    /// Whether a member was added, and it is not known yet that its extent may be used. It has no copies.
    #[must_use]
    pub fn is_joining(&self, member: u16) -> bool {
        self.joining.contains_key(&member)
    }

    /// The members that are joining, and get copies once their extents are known, whatever these hold.
    pub fn overwritten(&self) -> impl Iterator<Item = u16> + '_ {
        self.joining.iter().filter(|(_, overwrites)| **overwrites).map(|(&member, _)| member)
    }

    /// Whether a member was removed. It has no copies, and gets none: its number is not used again.
    #[must_use]
    pub fn is_gone(&self, member: u16) -> bool {
        self.gone.contains(&member)
    }

    /// Whether no copies may be made on a member, as it is joining, was removed, or is to have none any more.
    #[must_use]
    pub fn takes_no_copies(&self, member: u16) -> bool {
        self.is_joining(member) || self.is_gone(member) || self.is_leaving(member)
    }

    /// One more member. It is joining.
    pub(super) fn add_member(&mut self, number: u16, member: Member) -> Result<(), MapError> {
        let expected = self.members.len();
        if usize::from(number) != expected {
            return Err(MapError::MemberNumber { number, expected });
        }
        check_member(&self.members, &member)?;
        self.members.push(member);
        self.joining.insert(number, false);
        Ok(())
    }

    /// Refuses members that are not there, or no longer.
    pub(super) fn check_present(&self, member: u16) -> Result<(), MapError> {
        if usize::from(member) >= self.members.len() || self.is_gone(member) {
            return Err(MapError::UnknownMember(member));
        }
        Ok(())
    }

    /// Refuses members that may not have copies.
    pub(super) fn check_admitted(&self, member: u16) -> Result<(), MapError> {
        if self.is_joining(member) {
            return Err(MapError::UnknownMember(member));
        }
        self.check_present(member)
    }

    pub(super) fn set_address(&mut self, member: u16, address: &str, is_seed: bool) -> Result<(), MapError> {
        self.check_present(member)?;
        let len_bytes = address.len();
        if !(1..=ADDRESS_BYTES_MAX).contains(&len_bytes) {
            return Err(MapError::Address { member, len_bytes });
        }
        self.addresses.insert(member, (address.to_string(), is_seed));
        Ok(())
    }

    pub(super) fn set_joining(&mut self, member: u16, is_joining: bool, overwrites: bool) -> Result<(), MapError> {
        self.check_present(member)?;
        if !is_joining {
            self.joining.remove(&member);
        } else if self.copies_on(member) > 0 {
            return Err(MapError::HasCopies { member, copies: self.copies_on(member) });
        } else {
            self.joining.insert(member, overwrites);
        }
        Ok(())
    }

    /// A member without copies is none any more. Its extent may be added anew, and is another member then.
    pub(super) fn remove_member(&mut self, member: u16) -> Result<(), MapError> {
        self.check_present(member)?;
        let copies = self.copies_on(member);
        if copies > 0 {
            return Err(MapError::HasCopies { member, copies });
        }
        if let Some(known) = self.members.get_mut(usize::from(member)) {
            (known.extent_id, known.boot_id, known.seen) = (unknown_extent(member), None, None);
        }
        self.addresses.remove(&member);
        self.joining.remove(&member);
        self.leaving.remove(&member);
        self.gone.insert(member);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CHUNK, id, members};
    use super::super::{ADDRESS_BYTES_MAX, MEMBERS_MAX, MapImage, Place, Record, unknown_extent};

    /// Two copies of three chunks on two members.
    fn image() -> MapImage {
        MapImage::new(id(7), CHUNK, 2, members(&[(3, 0), (3, 1)])).unwrap()
    }

    fn member(number: u16, domain: &str) -> Record {
        let extent_id = unknown_extent(number);
        Record::Member { number, extent_id, size_bytes: 0, domain: domain.to_string() }
    }

    fn refused(image: &MapImage, record: &Record) -> String {
        let mut changed = image.clone();
        let error = changed.apply(record).unwrap_err().to_string();
        assert_eq!(changed, *image);
        error
    }

    #[test]
    fn a_member_joins_before_it_gets_copies() {
        let mut image = image();
        assert_eq!(refused(&image, &member(3, "x")), "member 3 where number 2 is due");
        image.apply(&member(2, "x")).unwrap();
        assert!(image.is_joining(2) && image.takes_no_copies(2) && image.slots(2) == 0);
        let address = |text: &str| Record::Address { member: 2, address: text.to_string(), is_seed: false };
        image.apply(&address("192.0.2.3:7080")).unwrap();
        for (len, is_ok) in [(0, false), (1, true), (ADDRESS_BYTES_MAX, true), (ADDRESS_BYTES_MAX + 1, false)] {
            assert_eq!(image.clone().apply(&address(&"a".repeat(len))).is_ok(), is_ok, "{len}");
        }
        image.apply(&Record::Extent { member: 2, extent_id: id(9), size_bytes: 2 * CHUNK }).unwrap();
        let to = Place { member: 2, slot: 0 };
        assert_eq!(refused(&image, &Record::Moved { chunk: 0, copy: 0, to }), "there is no member 2");
        assert_eq!(MapImage::from_records(&image.snapshot()).unwrap(), image);
        image.apply(&Record::Joining { member: 2, is_joining: false, overwrites: false }).unwrap();
        image.apply(&Record::Moved { chunk: 0, copy: 0, to }).unwrap();
        assert_eq!((image.address(2), image.slots(2), image.copies_on(2)), (Some("192.0.2.3:7080"), 2, 1));
        let again = refused(&image, &Record::Joining { member: 2, is_joining: true, overwrites: true });
        assert_eq!(again, "member 2 has 1 copies");
        assert_eq!(MapImage::from_records(&image.snapshot()).unwrap(), image);
    }

    #[test]
    fn a_member_without_copies_is_removed_for_ever() {
        let mut image = image();
        image.apply(&member(2, "x")).unwrap();
        image.apply(&Record::Extent { member: 2, extent_id: id(9), size_bytes: CHUNK }).unwrap();
        assert_eq!(refused(&image, &Record::Gone { member: 0 }), "member 0 has 3 copies");
        image.apply(&Record::Leaving { member: 2, is_leaving: true }).unwrap();
        image.apply(&Record::Gone { member: 2 }).unwrap();
        assert!(image.is_gone(2) && !image.is_joining(2) && !image.is_leaving(2) && image.slots(2) == 0);
        let of_gone = [
            Record::Gone { member: 2 },
            Record::Leaving { member: 2, is_leaving: true },
            Record::Joining { member: 2, is_joining: true, overwrites: true },
            Record::Address { member: 2, address: "a".to_string(), is_seed: true },
            Record::Extent { member: 2, extent_id: id(10), size_bytes: CHUNK },
            Record::Moved { chunk: 0, copy: 0, to: Place { member: 2, slot: 0 } },
        ];
        for record in of_gone {
            assert_eq!(refused(&image, &record), "there is no member 2", "{record:?}");
        }
        assert_eq!(MapImage::from_records(&image.snapshot()).unwrap(), image);
        image.apply(&member(3, "x")).unwrap();
        let same = Record::Extent { member: 3, extent_id: id(9), size_bytes: CHUNK };
        image.apply(&same).expect("the extent is another member now");
        assert_eq!(MapImage::from_records(&image.snapshot()).unwrap(), image);
    }

    #[test]
    fn members_are_bounded() {
        let mut image = image();
        for number in 2..MEMBERS_MAX {
            image.apply(&member(number as u16, "x")).unwrap();
        }
        assert!(refused(&image, &member(MEMBERS_MAX as u16, "x")).contains("more than"));
    }
}
