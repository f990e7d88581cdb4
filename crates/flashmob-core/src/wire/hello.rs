//! The first frames of a link: the gateway's hello, and the node's welcome or refusal.
//!
//! They also fence: a node that sends a welcome has finished, or dropped, everything that came over earlier links with the same
//! gateway, session and number, and over all links of that gateway's earlier sessions. Only then may the gateway resend a write.

use flashmob_text::one_line;

use super::frame::{Fields, FrameKind, TEXT_COLUMNS_MAX, WireError, encode_frame, put_text};
use super::mirror::MirrorState;
use crate::enums::listed;

/// The first frame of a gateway on every link. The default is no valid hello: a volume's identity and the count of its extents are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// Identity of the gateway, the same after a restart.
    pub gateway_id: [u8; 16],
    /// Number of the gateway's start; a later start has a larger one.
    pub session: u64,
    /// Number of the link among the gateway's links to this node, at most [`LINK_NUMBER_MAX`].
    pub link: u16,
    /// The gateway knows alive and condition frames. On the wire it is the highest bit of the link's number, so that an older node takes
    /// it for a number.
    pub keeps_alive: bool,
    /// The gateway hears of a store's progress with a flush: [`Alive::Progress`](super::condition::Alive::Progress). On the wire it is the
    /// second highest bit of the link's number, so that an older node takes it for a number.
    pub hears_progress: bool,
    /// The gateway keeps mirrors of its map on nodes: [`super::mirror`]. On the wire it is the third highest bit of the link's number.
    pub keeps_mirror: bool,
    /// The gateway knows blocks that are marked as unreadable ([`OpFlags::UNREADABLE`](crate::op::OpFlags::UNREADABLE)). On the wire it is the
    /// second highest bit of the attempt's number, so that an older node takes it for a part of that. A gateway sets it in all its hellos or in none.
    pub knows_marks: bool,
    /// The gateway asks for the extent's age ([`Welcome::keeps_age`]). On the wire it is the third highest bit of the attempt's number, so that an
    /// older node takes it for a part of that. A gateway sets it in all its hellos or in none.
    pub asks_age: bool,
    /// The gateway shows how long nodes' stores take: [`super::service`]. On the wire it is the highest bit of the attempt's number, so that an
    /// older node takes it for a part of that. A gateway sets it in all its hellos or in none.
    pub hears_service: bool,
    /// Number of the attempt at this link, at most [`ATTEMPT_MAX`]; a later one has a larger number.
    pub attempt: u32,
    /// The volume's identity.
    pub volume_id: String,
    /// The number of the node's extent in the volume.
    pub extent: u32,
    /// How many extents the volume has.
    pub extents: u32,
    /// The volume's layout, as [`LayoutKind`](crate::layout::LayoutKind) is displayed.
    pub layout: String,
    /// Required size of the extent, in bytes; 0 for any.
    pub size_bytes: u64,
    /// For a volume with copies: which gateway this is, among those that ever were in charge of the volume.
    pub charge: Option<Charge>,
    /// Epoch and version of a charge, or an age, that the gateway knows to be remembered durably by the extent. Only with a charge.
    pub seen: Option<(u64, u64)>,
    /// The volume was linear, and had this extent: it may be converted. Only with a charge.
    pub from_linear: Option<FromLinear>,
}

/// What an extent of a linear volume has to be, to be converted to a member of the volume with copies that was made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FromLinear {
    /// The extent's permanent identity.
    pub extent_id: [u8; 16],
    /// How many extents the linear volume had.
    pub extents: u32,
}

/// Identifies a start of a gateway among those of a volume with copies. A node remembers the latest durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Identity of the volume's map, drawn at random with the volume.
    pub map_id: [u8; 16],
    /// Number of the start, counted in the map; the largest is in charge. At most [`CHARGE_NUMBER_MAX`].
    pub epoch: u64,
    /// A random number of the start. Two gateways that count from copies of one map may have the same epoch, never the same nonce.
    pub nonce: u64,
    /// Version of the map's last record of a node out, a copy behind or a place; at most [`CHARGE_NUMBER_MAX`]. Only of records that are
    /// durable: a gateway that forgot one in a crash would be refused for ever.
    pub version: u64,
}

/// A node accepts a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The extent's permanent identity.
    pub extent_id: [u8; 16],
    /// Identity of the start of the node's operating system; when it changes, unflushed writes are lost.
    pub boot_id: [u8; 16],
    /// Size of the extent in bytes.
    pub size_bytes: u64,
    /// The node answers without I/O (P1's no-I/O mode), not with data.
    pub no_io: bool,
    /// The node answers at the speed of a modelled flash, with data.
    pub modelled: bool,
    /// The node knows alive frames and will report its condition. Only set for a gateway that knows them.
    pub keeps_alive: bool,
    /// The node's clock in nanoseconds, read after the hello had arrived. See [`crate::clocks`].
    pub hello_received_ns: u64,
    /// The same, read before this welcome was sent.
    pub welcome_sent_ns: u64,
    /// Epoch and version of a charge that the extent accepted before this hello, or its age: the last one that is not later than [`Hello::seen`].
    /// Only in answer to a hello with a charge. If it is not what the gateway knows, the extent is an older copy of itself.
    pub remembered: Option<(u64, u64)>,
    /// The node keeps a mirror of the volume's map; what it has of that, `Default` if nothing. Only for a gateway that keeps mirrors, of a
    /// volume with copies.
    pub mirror: Option<MirrorState>,
    /// The node knows blocks that are marked as unreadable, and digests that tell what corrupt blocks should be
    /// ([`OpFlags::EXPECTED`](crate::op::OpFlags::EXPECTED)). Only set for a gateway that knows them.
    pub knows_marks: bool,
    /// The extent keeps its age: the state of the map that its mirror had durably last, stored beside its checksums
    /// ([`Host::age`](crate::node::Host::age)). It counts as one more charge in [`Welcome::remembered`]. Only set for a gateway that asks for it.
    pub keeps_age: bool,
}

listed! {
    /// Why a node refuses a hello.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum RefuseReason {
        /// Its extent belongs to another volume, or has another number in this one.
        Identity = 1,
        /// Its extent has another size.
        Size = 2,
        /// A later session or attempt of the same gateway is linked already.
        Superseded = 3,
        /// It has reached its limit of links.
        Busy = 4,
        /// Its store failed.
        Store = 5,
        /// It is shutting down.
        ShuttingDown = 6,
        /// Another gateway is in charge of the volume, which has copies: one with a larger epoch, or with a later map.
        Deposed = 7,
        /// It has keys, and the gateway has shown none that let it in.
        NeedsKeys = 8,
    }
}

impl RefuseReason {
    /// Whether somebody has to intervene, so that an early retry is useless.
    #[must_use]
    pub fn is_permanent(self) -> bool {
        matches!(self, RefuseReason::Identity | RefuseReason::Size | RefuseReason::Deposed | RefuseReason::NeedsKeys)
    }
}

/// A node's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refuse {
    /// The kind of reason.
    pub reason: RefuseReason,
    /// An explanation.
    pub text: String,
}

const WELCOME_NO_IO: u8 = 1;
const WELCOME_MODELLED: u8 = 2;
const WELCOME_KEEPS_ALIVE: u8 = 4;
const WELCOME_KEEPS_MIRROR: u8 = 8;
const WELCOME_KNOWS_MARKS: u8 = 16;
const WELCOME_KEEPS_AGE: u8 = 32;
const WELCOME_KNOWN: u8 = WELCOME_NO_IO
    | WELCOME_MODELLED
    | WELCOME_KEEPS_ALIVE
    | WELCOME_KEEPS_MIRROR
    | WELCOME_KNOWS_MARKS
    | WELCOME_KEEPS_AGE;

/// The largest number of a link.
pub const LINK_NUMBER_MAX: u16 = HELLO_KEEPS_MIRROR - 1;
const HELLO_KEEPS_ALIVE: u16 = 1 << 15;
const HELLO_HEARS_PROGRESS: u16 = 1 << 14;
const HELLO_KEEPS_MIRROR: u16 = 1 << 13;

/// The largest number of an attempt.
pub const ATTEMPT_MAX: u32 = HELLO_ASKS_AGE - 1;
const HELLO_HEARS_SERVICE: u32 = 1 << 31;
const HELLO_KNOWS_MARKS: u32 = 1 << 30;
const HELLO_ASKS_AGE: u32 = 1 << 29;

/// The largest epoch and the largest version of a map: one more is still a number, and files of identities can hold it.
pub const CHARGE_NUMBER_MAX: u64 = i64::MAX as u64;

impl Hello {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let meta = |meta: &mut Vec<u8>| {
            meta.extend_from_slice(&self.gateway_id);
            meta.extend_from_slice(&self.session.to_le_bytes());
            let keeps_alive = if self.keeps_alive { HELLO_KEEPS_ALIVE } else { 0 };
            let hears_progress = if self.hears_progress { HELLO_HEARS_PROGRESS } else { 0 };
            let keeps_mirror = if self.keeps_mirror { HELLO_KEEPS_MIRROR } else { 0 };
            let knows_marks = if self.knows_marks { HELLO_KNOWS_MARKS } else { 0 };
            let flags = keeps_alive | hears_progress | keeps_mirror;
            let hears_service = if self.hears_service { HELLO_HEARS_SERVICE } else { 0 };
            meta.extend_from_slice(&((self.link & LINK_NUMBER_MAX) | flags).to_le_bytes());
            let asks_age = if self.asks_age { HELLO_ASKS_AGE } else { 0 };
            let flags = hears_service | knows_marks | asks_age;
            meta.extend_from_slice(&(self.attempt.min(ATTEMPT_MAX) | flags).to_le_bytes());
            meta.extend_from_slice(&self.extent.to_le_bytes());
            meta.extend_from_slice(&self.extents.to_le_bytes());
            meta.extend_from_slice(&self.size_bytes.to_le_bytes());
            put_text(meta, &self.volume_id);
            put_text(meta, &self.layout);
            if let Some(charge) = &self.charge {
                charge.put(meta);
                let (epoch, version) = self.seen.unwrap_or_default();
                [epoch, version].iter().for_each(|number| meta.extend_from_slice(&number.to_le_bytes()));
                if let Some(from) = &self.from_linear {
                    meta.extend_from_slice(&from.extent_id);
                    meta.extend_from_slice(&from.extents.to_le_bytes());
                }
            }
        };
        encode_frame(out, FrameKind::Hello, meta, |_| ());
    }

    /// Decodes the frame's meta.
    pub fn decode(meta: &[u8]) -> Result<Hello, WireError> {
        let mut fields = Fields::new(meta, "hello");
        let (gateway_id, session, link, attempt) = (fields.array()?, fields.u64()?, fields.u16()?, fields.u32()?);
        let mut hello = Hello {
            gateway_id,
            session,
            link: link & LINK_NUMBER_MAX,
            keeps_alive: link & HELLO_KEEPS_ALIVE != 0,
            hears_progress: link & HELLO_HEARS_PROGRESS != 0,
            keeps_mirror: link & HELLO_KEEPS_MIRROR != 0,
            knows_marks: attempt & HELLO_KNOWS_MARKS != 0,
            asks_age: attempt & HELLO_ASKS_AGE != 0,
            hears_service: attempt & HELLO_HEARS_SERVICE != 0,
            attempt: attempt & ATTEMPT_MAX,
            extent: fields.u32()?,
            extents: fields.u32()?,
            size_bytes: fields.u64()?,
            volume_id: fields.text()?,
            layout: fields.text()?,
            charge: if fields.is_empty() { None } else { Some(Charge::take(&mut fields)?) },
            seen: None,
            from_linear: None,
        };
        if hello.charge.is_some() {
            let (epoch, version) = (fields.u64()?, fields.u64()?);
            if epoch.max(version) > CHARGE_NUMBER_MAX {
                return Err(WireError::Malformed("hello: seen"));
            }
            // No gateway has started before epoch 1.
            hello.seen = (epoch > 0).then_some((epoch, version));
            if !fields.is_empty() {
                let from = FromLinear { extent_id: fields.array()?, extents: fields.u32()? };
                if hello.extent >= from.extents {
                    return Err(WireError::Malformed("hello: extents of a linear volume"));
                }
                hello.from_linear = Some(from);
            }
        }
        fields.end()?;
        if hello.extent >= hello.extents || hello.volume_id.is_empty() {
            return Err(WireError::Malformed("hello"));
        }
        Ok(hello)
    }
}

impl Charge {
    pub(super) fn put(&self, meta: &mut Vec<u8>) {
        meta.extend_from_slice(&self.map_id);
        [self.epoch, self.nonce, self.version].iter().for_each(|number| meta.extend_from_slice(&number.to_le_bytes()));
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Result<Charge, WireError> {
        let charge =
            Charge { map_id: fields.array()?, epoch: fields.u64()?, nonce: fields.u64()?, version: fields.u64()? };
        if charge.epoch.max(charge.version) > CHARGE_NUMBER_MAX {
            return Err(WireError::Malformed("charge"));
        }
        Ok(charge)
    }
}

impl Welcome {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let meta = |meta: &mut Vec<u8>| {
            meta.extend_from_slice(&self.extent_id);
            meta.extend_from_slice(&self.boot_id);
            meta.extend_from_slice(&self.size_bytes.to_le_bytes());
            let flag = |is_set: bool, flag| u8::from(is_set) * flag;
            let (no_io, modelled) = (flag(self.no_io, WELCOME_NO_IO), flag(self.modelled, WELCOME_MODELLED));
            let keeps_mirror = flag(self.mirror.is_some(), WELCOME_KEEPS_MIRROR);
            let knows_marks = flag(self.knows_marks, WELCOME_KNOWS_MARKS);
            let keeps_age = flag(self.keeps_age, WELCOME_KEEPS_AGE);
            let keeps_alive = flag(self.keeps_alive, WELCOME_KEEPS_ALIVE);
            meta.push(no_io | modelled | keeps_alive | keeps_mirror | knows_marks | keeps_age);
            meta.extend_from_slice(&self.hello_received_ns.to_le_bytes());
            meta.extend_from_slice(&self.welcome_sent_ns.to_le_bytes());
            self.mirror.iter().for_each(|mirror| mirror.put(meta));
            if let Some((epoch, version)) = self.remembered {
                [epoch, version].iter().for_each(|number| meta.extend_from_slice(&number.to_le_bytes()));
            }
        };
        encode_frame(out, FrameKind::Welcome, meta, |_| ());
    }

    /// Decodes the frame's meta.
    pub fn decode(meta: &[u8]) -> Result<Welcome, WireError> {
        let mut fields = Fields::new(meta, "welcome");
        let (extent_id, boot_id, size_bytes) = (fields.array()?, fields.array()?, fields.u64()?);
        let flags = fields.u8()?;
        let (hello_received_ns, welcome_sent_ns) = (fields.u64()?, fields.u64()?);
        let mirror = (flags & WELCOME_KEEPS_MIRROR != 0).then(|| MirrorState::take(&mut fields)).transpose()?;
        let remembered = if fields.is_empty() { None } else { Some((fields.u64()?, fields.u64()?)) };
        fields.end()?;
        if remembered.is_some_and(|(epoch, version)| epoch.max(version) > CHARGE_NUMBER_MAX) {
            return Err(WireError::Malformed("welcome: remembered"));
        }
        if flags & !WELCOME_KNOWN != 0 || size_bytes == 0 || size_bytes > i64::MAX as u64 {
            return Err(WireError::Malformed("welcome"));
        }
        if welcome_sent_ns < hello_received_ns {
            return Err(WireError::Malformed("welcome: times"));
        }
        let (no_io, modelled) = (flags & WELCOME_NO_IO != 0, flags & WELCOME_MODELLED != 0);
        let keeps_alive = flags & WELCOME_KEEPS_ALIVE != 0;
        Ok(Welcome {
            extent_id,
            boot_id,
            size_bytes,
            no_io,
            modelled,
            keeps_alive,
            hello_received_ns,
            welcome_sent_ns,
            remembered,
            mirror,
            knows_marks: flags & WELCOME_KNOWS_MARKS != 0,
            keeps_age: flags & WELCOME_KEEPS_AGE != 0,
        })
    }
}

impl Refuse {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let meta = |meta: &mut Vec<u8>| {
            meta.push(self.reason as u8);
            put_text(meta, &self.text);
        };
        encode_frame(out, FrameKind::Refuse, meta, |_| ());
    }

    /// Decodes the frame's meta.
    pub fn decode(meta: &[u8]) -> Result<Refuse, WireError> {
        let mut fields = Fields::new(meta, "refusal");
        let reason = RefuseReason::from_wire(fields.u8()?).ok_or(WireError::Malformed("refusal"))?;
        let refuse = Refuse { reason, text: one_line(&fields.text()?, TEXT_COLUMNS_MAX) };
        fields.end()?;
        Ok(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Decoded, Frame, decode_frame};
    use super::*;
    use proptest::prelude::*;

    fn meta_of(bytes: &[u8]) -> &[u8] {
        match decode_frame(bytes) {
            Ok(Decoded::Frame(Frame { meta, .. }, _)) => meta,
            other => panic!("{other:?}"),
        }
    }

    fn any_charge() -> impl Strategy<Value = Charge> {
        (any::<[u8; 16]>(), 0..=CHARGE_NUMBER_MAX, any::<u64>(), 0..=CHARGE_NUMBER_MAX)
            .prop_map(|(map_id, epoch, nonce, version)| Charge { map_id, epoch, nonce, version })
    }

    fn hello() -> Hello {
        Hello {
            gateway_id: [1; 16],
            session: 1,
            link: 3,
            attempt: 1,
            volume_id: "v".to_string(),
            extents: 1,
            layout: "linear".to_string(),
            ..Hello::default()
        }
    }

    proptest! {
        #[test]
        fn hellos_round_trip(ids in any::<([u8; 16], u64, u16, u32, u64)>(), flags: (bool, bool, bool, bool, bool, bool), from_linear in prop::option::of((any::<[u8; 16]>(), 9..=u32::MAX)), extent in 0u32..9, volume_id in "[a-zé]{1,80}", layout in "[a-z:0-9]{0,20}", charge in prop::option::of(any_charge()), seen in prop::option::of((1..=CHARGE_NUMBER_MAX, 0..=CHARGE_NUMBER_MAX))) {
            let (keeps_alive, hears_progress, keeps_mirror, hears_service, knows_marks, asks_age) = flags;
            let from_linear = from_linear.filter(|_| charge.is_some()).map(|(extent_id, extents)| FromLinear { extent_id, extents });
            let hello = Hello { gateway_id: ids.0, session: ids.1, link: ids.2 & LINK_NUMBER_MAX, keeps_alive, hears_progress, keeps_mirror, knows_marks, asks_age, hears_service, attempt: ids.3 & ATTEMPT_MAX, size_bytes: ids.4, extent, extents: 9, volume_id, layout, charge, seen: seen.filter(|_| charge.is_some()), from_linear };
            let mut bytes = Vec::new();
            hello.encode(&mut bytes);
            prop_assert_eq!(Hello::decode(meta_of(&bytes)), Ok(hello));
        }

        #[test]
        fn answers_round_trip(extent_id: [u8; 16], boot_id: [u8; 16], size_bytes in 1u64..1 << 60, no_io: bool, modelled: bool, flags: (bool, bool, bool), times: [u64; 2], remembered in prop::option::of((1..=CHARGE_NUMBER_MAX, 0..=CHARGE_NUMBER_MAX)), mirror in prop::option::of((0..=CHARGE_NUMBER_MAX, any::<u64>())), reason in 0usize..RefuseReason::ALL.len(), text in "\\PC{0,60}") {
            let (hello_received_ns, welcome_sent_ns) = (times[0].min(times[1]), times[0].max(times[1]));
            let (keeps_alive, knows_marks, keeps_age) = flags;
            let mirror = mirror.map(|(number, nonce)| MirrorState { epoch: number, nonce, version: number, len_bytes: nonce % (1 << 30) });
            let welcome = Welcome { extent_id, boot_id, size_bytes, no_io, modelled, keeps_alive, hello_received_ns, welcome_sent_ns, remembered, mirror, knows_marks, keeps_age };
            let refuse = Refuse { reason: RefuseReason::ALL[reason], text };
            let (mut a, mut b) = (Vec::new(), Vec::new());
            welcome.encode(&mut a);
            refuse.encode(&mut b);
            prop_assert_eq!(Welcome::decode(meta_of(&a)), Ok(welcome));
            let text = one_line(&refuse.text, TEXT_COLUMNS_MAX);
            prop_assert_eq!(Refuse::decode(meta_of(&b)), Ok(Refuse { text, ..refuse }));
        }

        #[test]
        fn garbage_never_panics(meta in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = (Hello::decode(&meta), Welcome::decode(&meta), Refuse::decode(&meta));
        }
    }

    #[test]
    fn a_node_from_before_one_of_the_flags_sees_a_link_number_and_a_gateway_no_flag() {
        for (keeps_alive, hears_progress, keeps_mirror, hears_service, knows_marks, asks_age, number, attempt) in [
            (false, false, false, false, false, false, 3, 1),
            (true, false, false, false, false, false, 0x8003, 1),
            (true, true, false, false, false, false, 0xc003, 1),
            (true, true, true, false, false, false, 0xe003, 1),
            (true, true, true, true, false, false, 0xe003, 0x8000_0001),
            (true, true, true, true, true, false, 0xe003, 0xc000_0001),
            (true, true, true, true, true, true, 0xe003, 0xe000_0001),
        ] {
            let mut bytes = Vec::new();
            Hello { keeps_alive, hears_progress, keeps_mirror, hears_service, knows_marks, asks_age, ..hello() }
                .encode(&mut bytes);
            assert_eq!(meta_of(&bytes)[24..26], u16::to_le_bytes(number));
            // Nodes refuse numbers of links above 255, and know the flags above 13 bits.
            assert_eq!(number & 0x1fff, 3);
            assert_eq!(meta_of(&bytes)[26..30], u32::to_le_bytes(attempt));
        }
    }

    #[test]
    fn the_largest_attempt_leaves_the_flag_alone() {
        for (attempt, is_read_as) in
            [(ATTEMPT_MAX - 1, ATTEMPT_MAX - 1), (ATTEMPT_MAX, ATTEMPT_MAX), (ATTEMPT_MAX + 1, ATTEMPT_MAX)]
        {
            let mut bytes = Vec::new();
            Hello { attempt, ..hello() }.encode(&mut bytes);
            assert_eq!(Hello::decode(meta_of(&bytes)), Ok(Hello { attempt: is_read_as, ..hello() }));
        }
    }

    #[test]
    fn the_largest_link_number_leaves_the_flags_alone() {
        for link in [0, LINK_NUMBER_MAX - 1, LINK_NUMBER_MAX] {
            let mut bytes = Vec::new();
            Hello { link, ..hello() }.encode(&mut bytes);
            assert_eq!(Hello::decode(meta_of(&bytes)), Ok(Hello { link, ..hello() }));
        }
        let mut bytes = Vec::new();
        Hello { link: LINK_NUMBER_MAX + 1, ..hello() }.encode(&mut bytes);
        assert_eq!(Hello::decode(meta_of(&bytes)), Ok(Hello { link: 0, ..hello() }), "no link has it");
    }

    #[test]
    fn a_charge_is_whole_or_absent_and_its_numbers_are_bounded() {
        let charge = Charge { map_id: [7; 16], epoch: 5, nonce: u64::MAX, version: 9 };
        let meta = |charge| {
            let mut bytes = Vec::new();
            Hello { charge, ..hello() }.encode(&mut bytes);
            meta_of(&bytes).to_vec()
        };
        let (without, with) = (meta(None), meta(Some(charge)));
        assert_eq!((without.len(), with.len()), (50 + 1 + 6, without.len() + 56));
        assert_eq!(with[..without.len()], without, "a volume without copies says what it always said");
        assert_eq!(with[without.len()..][..24], [&[7; 16][..], &5u64.to_le_bytes()].concat());
        for len in without.len() + 1..with.len() {
            assert!(Hello::decode(&with[..len]).is_err(), "{len} bytes");
        }
        for (extents, is_valid) in [(0, false), (1, true), (u32::MAX, true)] {
            let from = FromLinear { extent_id: [5; 16], extents };
            let more = [&[5; 16][..], &u32::to_le_bytes(extents)].concat();
            let hello = Hello::decode(&[&with[..], &more].concat());
            assert_eq!(hello.ok().and_then(|hello| hello.from_linear), is_valid.then_some(from), "{extents}");
            assert!(Hello::decode(&[&without[..], &more].concat()).is_err(), "only with a charge");
            for len in 1..more.len() {
                assert!(Hello::decode(&[&with[..], &more[..len]].concat()).is_err(), "{len} bytes");
            }
        }
        assert!(Hello::decode(&[&with[..], &[1; 21]].concat()).is_err(), "one byte more");
        for (epoch, version, is_valid) in [
            (0, 0, true),
            (CHARGE_NUMBER_MAX, CHARGE_NUMBER_MAX, true),
            (CHARGE_NUMBER_MAX + 1, 0, false),
            (0, CHARGE_NUMBER_MAX + 1, false),
            (u64::MAX, u64::MAX, false),
        ] {
            let decoded = Hello::decode(&meta(Some(Charge { epoch, version, ..charge })));
            assert_eq!(decoded.is_ok(), is_valid, "{epoch} {version}");
        }
    }

    #[test]
    fn a_welcome_ends_as_it_always_did_or_tells_what_is_remembered() {
        let meta = |remembered| {
            let mut bytes = Vec::new();
            let (extent_id, boot_id, size_bytes) = ([1; 16], [2; 16], 4096);
            let (no_io, modelled, keeps_alive) = (false, false, true);
            let (hello_received_ns, welcome_sent_ns) = (5, 6);
            Welcome {
                extent_id,
                boot_id,
                size_bytes,
                no_io,
                modelled,
                keeps_alive,
                hello_received_ns,
                welcome_sent_ns,
                remembered,
                mirror: None,
                knows_marks: false,
                keeps_age: false,
            }
            .encode(&mut bytes);
            meta_of(&bytes).to_vec()
        };
        let (without, with) = (meta(None), meta(Some((CHARGE_NUMBER_MAX, 9))));
        assert_eq!((without.len(), with.len()), (57, 73));
        assert_eq!(with[..57], without);
        for len in 58..73 {
            assert!(Welcome::decode(&with[..len]).is_err(), "{len} bytes");
        }
        assert!(Welcome::decode(&[&with[..], &[0]].concat()).is_err(), "one byte more");
        assert!(Welcome::decode(&meta(Some((CHARGE_NUMBER_MAX + 1, 9)))).is_err());
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let refuse = Refuse { reason: RefuseReason::Size, text: "é".repeat(200) };
        let mut bytes = Vec::new();
        refuse.encode(&mut bytes);
        assert_eq!(Refuse::decode(meta_of(&bytes)).map(|r| r.text.len()), Ok(254));
    }

    #[test]
    fn what_a_node_says_is_one_line_that_steers_no_terminal() {
        let text = "no\n\u{1b}[2J\r\n[2026 INFO ] all is \u{202e}well".to_string();
        let (mut refused, mut failed) = (Vec::new(), Vec::new());
        super::super::frame::encode_error(&mut failed, &text);
        Refuse { reason: RefuseReason::Store, text }.encode(&mut refused);
        let expected = "no \u{fffd}[2J [2026 INFO ] all is \u{fffd}well";
        assert_eq!(Refuse::decode(meta_of(&refused)).unwrap().text, expected);
        assert_eq!(super::super::frame::error_text(meta_of(&failed)), expected);
    }
}
