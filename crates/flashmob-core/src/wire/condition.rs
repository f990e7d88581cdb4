//! Condition frames report a node's device; alive frames keep a radio awake, probe a link, or tell of progress with a flush.
//!
//! They are sent only where hello and welcome said that both ends know them.

use super::frame::{Fields, FrameKind, WireError, encode_frame, put_text};
use crate::condition::{Condition, Crossed, LastPause, Network, THERMAL_STATUS_MAX};
use crate::enums::listed;

/// Most bytes of the reason of a pause, as written.
pub const REASON_BYTES_MAX: usize = 255;

const BATTERY: u16 = 1;
const CHARGING: u16 = 1 << 1;
const CELSIUS: u16 = 1 << 2;
const SCREEN: u16 = 1 << 3;
const THERMAL: u16 = 1 << 4;
const POWER_SAVE: u16 = 1 << 5;
const DOZE: u16 = 1 << 6;
const EXEMPT: u16 = 1 << 7;
const NETWORK: u16 = 1 << 8;
const FREE: u16 = 1 << 9;
const UNALLOCATED: u16 = 1 << 10;
const DISK: u16 = 1 << 11;
const ALL_KNOWN: u16 = (1 << 12) - 1;
/// The fields that are booleans.
const ANSWERS: u16 = CHARGING | SCREEN | POWER_SAVE | DOZE | EXEMPT;

const LOW_BATTERY: u8 = 1;
const HOT: u8 = 1 << 1;
const LITTLE_SPACE: u8 = 1 << 2;

/// Appends a condition frame.
pub fn put_condition(out: &mut Vec<u8>, condition: &Condition) {
    let c = condition;
    let known = |is_known: bool, bit: u16| if is_known { bit } else { 0 };
    let answers = [
        (c.charging, CHARGING),
        (c.screen_on, SCREEN),
        (c.power_save, POWER_SAVE),
        (c.doze, DOZE),
        (c.battery_exempt, EXEMPT),
    ];
    let figures = known(c.battery_percent.is_some(), BATTERY)
        | known(c.celsius_tenths.is_some(), CELSIUS)
        | known(c.thermal_status.is_some(), THERMAL)
        | known(c.network.is_some(), NETWORK)
        | known(c.free_bytes.is_some(), FREE)
        | known(c.unallocated_bytes.is_some(), UNALLOCATED)
        | known(c.disk_id.is_some(), DISK);
    let of_answers = answers.iter().fold(0, |bits, &(answer, bit)| bits | known(answer.is_some(), bit));
    let yes = answers.iter().fold(0, |bits, &(answer, bit)| bits | known(answer == Some(true), bit));
    let crossed = [(c.crossed.low_battery, LOW_BATTERY), (c.crossed.hot, HOT), (c.crossed.little_space, LITTLE_SPACE)];
    let crossed = crossed.into_iter().fold(0, |bits, (is_crossed, bit)| if is_crossed { bits | bit } else { bits });
    let (lasted_ms, reason) = c.last_pause.as_ref().map_or((0, ""), |p| (p.lasted_ms, &*p.reason));
    let meta = |meta: &mut Vec<u8>| {
        meta.extend_from_slice(&(figures | of_answers).to_le_bytes());
        meta.extend_from_slice(&yes.to_le_bytes());
        meta.push(crossed);
        meta.push(c.battery_percent.unwrap_or(0).min(100));
        meta.push(c.thermal_status.unwrap_or(0).min(THERMAL_STATUS_MAX));
        meta.push(c.network.map_or(0, |network| network as u8));
        meta.extend_from_slice(&c.celsius_tenths.unwrap_or(0).to_le_bytes());
        meta.extend_from_slice(&[0; 2]);
        meta.extend_from_slice(&c.free_bytes.unwrap_or(0).to_le_bytes());
        meta.extend_from_slice(&c.unallocated_bytes.unwrap_or(0).to_le_bytes());
        meta.extend_from_slice(&c.pauses.to_le_bytes());
        meta.extend_from_slice(&lasted_ms.to_le_bytes());
        meta.extend_from_slice(&c.disk_id.unwrap_or(0).to_le_bytes());
        put_text(meta, reason);
    };
    encode_frame(out, FrameKind::Condition, meta, |_| ());
}

/// Decodes a condition's meta.
pub fn decode_condition(meta: &[u8]) -> Result<Condition, WireError> {
    let malformed = WireError::Malformed("condition");
    let mut fields = Fields::new(meta, "condition");
    let (known, yes, crossed) = (fields.u16()?, fields.u16()?, fields.u8()?);
    let (battery, thermal, network) = (fields.u8()?, fields.u8()?, fields.u8()?);
    let (celsius, zero) = (i16::from_le_bytes(fields.array()?), fields.u16()?);
    let (free, unallocated) = (fields.u64()?, fields.u64()?);
    let (pauses, lasted_ms, disk_id, reason) = (fields.u32()?, fields.u64()?, fields.u64()?, fields.text()?);
    fields.end()?;
    if known & !ALL_KNOWN != 0 || yes & !(known & ANSWERS) != 0 || crossed & !(LOW_BATTERY | HOT | LITTLE_SPACE) != 0 {
        return Err(malformed);
    }
    let figure = |bit: u16, value: u64, most: u64| match known & bit != 0 {
        true if value <= most => Ok(Some(value)),
        false if value == 0 => Ok(None),
        _ => Err(WireError::Malformed("condition")),
    };
    let answer = |bit: u16| (known & bit != 0).then_some(yes & bit != 0);
    let is_text_alone = lasted_ms == 0 && !reason.is_empty();
    if zero != 0 || (known & CELSIUS == 0 && celsius != 0) || is_text_alone || reason.len() > REASON_BYTES_MAX {
        return Err(malformed);
    }
    let network = match figure(NETWORK, network.into(), 4)? {
        None => None,
        Some(n) => Some(Network::from_wire(n as u8).ok_or(malformed)?),
    };
    Ok(Condition {
        battery_percent: figure(BATTERY, battery.into(), 100)?.map(|n| n as u8),
        charging: answer(CHARGING),
        celsius_tenths: (known & CELSIUS != 0).then_some(celsius),
        screen_on: answer(SCREEN),
        thermal_status: figure(THERMAL, thermal.into(), THERMAL_STATUS_MAX.into())?.map(|n| n as u8),
        power_save: answer(POWER_SAVE),
        doze: answer(DOZE),
        battery_exempt: answer(EXEMPT),
        network,
        free_bytes: figure(FREE, free, u64::MAX)?,
        unallocated_bytes: figure(UNALLOCATED, unallocated, u64::MAX)?,
        disk_id: figure(DISK, disk_id, u64::MAX)?,
        crossed: Crossed {
            low_battery: crossed & LOW_BATTERY != 0,
            hot: crossed & HOT != 0,
            little_space: crossed & LITTLE_SPACE != 0,
        },
        pauses,
        last_pause: (lasted_ms > 0).then_some(LastPause { lasted_ms, reason }),
    })
}

listed! {
    /// What an alive frame says.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Alive {
        /// It keeps a radio awake, or answers a probe.
        Here = 0,
        /// It is a probe: the other end answers.
        Probe = 1,
        /// The node's store has made progress with a flush that came on this link. Only to a gateway that hears of it
        /// ([`Hello::hears_progress`](super::hello::Hello::hears_progress)): for another it would answer a probe.
        Progress = 2,
    }
}

/// Appends an alive frame.
pub fn put_alive(out: &mut Vec<u8>, alive: Alive) {
    encode_frame(out, FrameKind::Alive, |meta| meta.push(alive as u8), |_| ());
}

/// Decodes the meta of an alive frame.
pub fn decode_alive(meta: &[u8]) -> Result<Alive, WireError> {
    let [byte] = meta else { return Err(WireError::Malformed("alive")) };
    Alive::from_wire(*byte).ok_or(WireError::Malformed("alive"))
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Decoded, decode_frame};
    use super::*;
    use proptest::prelude::*;

    fn meta_of(condition: &Condition) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_condition(&mut bytes, condition);
        match decode_frame(&bytes) {
            Ok(Decoded::Frame(frame, taken)) if frame.kind == FrameKind::Condition && taken == bytes.len() => {
                frame.meta.to_vec()
            }
            other => panic!("{other:?}"),
        }
    }

    prop_compose! {
        fn conditions()(
            figures: (Option<i16>, Option<u64>, Option<u64>, u32, Option<u64>),
            battery_percent in prop::option::of(0u8..=100),
            thermal_status in prop::option::of(0u8..=6),
            answers: [Option<bool>; 5],
            network in prop::option::of(prop::sample::select(&Network::ALL[..])),
            crossed: [bool; 3],
            last_pause in prop::option::of((1u64.., "\\PC{0,60}")),
        ) -> Condition {
            Condition {
                battery_percent,
                charging: answers[0],
                celsius_tenths: figures.0,
                screen_on: answers[1],
                thermal_status,
                power_save: answers[2],
                doze: answers[3],
                battery_exempt: answers[4],
                network,
                free_bytes: figures.1,
                unallocated_bytes: figures.2,
                disk_id: figures.4,
                crossed: Crossed { low_battery: crossed[0], hot: crossed[1], little_space: crossed[2] },
                pauses: figures.3,
                last_pause: last_pause.map(|(lasted_ms, reason)| LastPause { lasted_ms, reason }),
            }
        }
    }

    proptest! {
        #[test]
        fn conditions_round_trip(condition in conditions()) {
            prop_assert_eq!(decode_condition(&meta_of(&condition)), Ok(condition));
        }

        #[test]
        fn garbage_never_panics_and_what_is_taken_is_written_the_same(meta in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_alive(&meta);
            if let Ok(condition) = decode_condition(&meta) {
                prop_assert_eq!(meta_of(&condition), meta);
            }
        }

        #[test]
        fn a_damaged_condition_is_refused_or_is_written_the_same(condition in conditions(), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut meta = meta_of(&condition);
            let at = at.index(meta.len());
            meta[at] ^= flip;
            if let Ok(other) = decode_condition(&meta) {
                prop_assert_eq!(meta_of(&other), meta);
            }
        }
    }

    #[test]
    fn figures_are_held_below_at_and_above_their_limits() {
        let meta = meta_of(&Condition {
            battery_percent: Some(99),
            thermal_status: Some(5),
            network: Some(Network::Wifi),
            ..Condition::default()
        });
        assert_eq!(meta.len(), 50);
        for (at, value, is_taken) in [
            (5, 99, true),
            (5, 100, true),
            (5, 101, false),
            (6, 6, true),
            (6, 7, false),
            (7, 4, true),
            (7, 5, false),
            (7, 0, false),
        ] {
            let mut meta = meta.clone();
            meta[at] = value;
            assert_eq!(decode_condition(&meta).is_ok(), is_taken, "byte {at} is {value}");
        }
        for (at, bit) in [(1, 1 << 4), (2, 1), (4, 1 << 3), (10, 1), (8, 1), (12, 1), (40, 1)] {
            let mut meta = meta.clone();
            meta[at] |= bit;
            assert!(decode_condition(&meta).is_err(), "byte {at} with {bit}");
        }
    }

    #[test]
    fn a_long_reason_is_cut_and_one_that_is_longer_is_refused() {
        let pause =
            |reason: String| Condition { last_pause: Some(LastPause { lasted_ms: 1, reason }), ..Condition::default() };
        for (len, kept) in [(254, 254), (255, 255), (256, 255)] {
            let taken = decode_condition(&meta_of(&pause("r".repeat(len))));
            assert_eq!(taken.map(|c| c.last_pause.map(|p| p.reason.len())), Ok(Some(kept)));
        }
        let mut meta = meta_of(&pause("r".repeat(255)));
        meta[48..50].copy_from_slice(&256u16.to_le_bytes());
        meta.push(b'r');
        assert!(decode_condition(&meta).is_err());
    }

    #[test]
    fn a_frame_that_keeps_alive_has_one_byte() {
        let known = [(&[0u8][..], Some(Alive::Here)), (&[1], Some(Alive::Probe)), (&[2], Some(Alive::Progress))];
        for (meta, expected) in known.into_iter().chain([(&[3][..], None), (&[], None), (&[0, 0], None)]) {
            assert_eq!(decode_alive(meta).ok(), expected, "{meta:?}");
        }
    }
}
