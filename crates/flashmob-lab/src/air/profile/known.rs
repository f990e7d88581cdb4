//! The built-in profiles. The source of each number is stated beside it; see the module above for the terms.

use super::{Dcf, Line, Medium};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

/// A built-in profile.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) medium: Medium,
}

pub(super) const ALL: [Known; 8] = [
    Known {
        name: "11a",
        description: "802.11a at 5 GHz: 54 Mbit/s, every frame alone; the air of the published checks",
        medium: Medium::Cell(DOT_11A),
    },
    Known {
        name: "11g",
        description: "802.11g at 2.4 GHz without 802.11b: 54 Mbit/s, every frame alone",
        medium: Medium::Cell(DOT_11G),
    },
    Known {
        name: "11n-2014",
        description: "the tablets of P1 and a router of their time: 802.11n, 65 Mbit/s, up to 64 frames at once",
        medium: Medium::Cell(DOT_11N_2014),
    },
    Known {
        name: "11n",
        description: "802.11n at 5 GHz: two streams in 40 MHz, 300 Mbit/s, up to 64 frames at once",
        medium: Medium::Cell(DOT_11N),
    },
    Known {
        name: "11ac",
        description: "802.11ac: two streams in 80 MHz, 867 Mbit/s, up to 64 frames at once",
        medium: Medium::Cell(DOT_11AC),
    },
    Known {
        name: "11ax",
        description: "802.11ax used like 802.11ac: two streams in 80 MHz, 1201 Mbit/s, up to 256 frames at once",
        medium: Medium::Cell(DOT_11AX),
    },
    Known {
        name: "wan",
        description: "no cell: a line of its own each way to each wireless port, 100 Mbit/s and 10 ms",
        medium: Medium::Lines(WAN),
    },
    // Chosen: short but not 0, so that causes precede effects.
    Known {
        name: "ideal",
        description: "no medium: frames arrive 1 us later, and nobody waits for anybody",
        medium: Medium::Ideal { delay_ns: US },
    },
];

/// All standard, except where stated otherwise.
const DOT_11A: Dcf = Dcf {
    slot_ns: 9 * US,
    sifs_ns: 16 * US,
    aifs_slots: 2,
    cw_min: 15,
    cw_max: 1023,
    retries: 7,
    preamble_ns: 20 * US,
    symbol_ns: 4 * US,
    rate_bps: 54 * MBIT,
    signal_extension_ns: 0,
    // MAC header 24, LLC and SNAP 8, checksum 4.
    overhead_bytes: 36,
    ack_rate_bps: 24 * MBIT,
    basic_rate_bps: 6 * MBIT,
    block_ack_bytes: 32,
    // No aggregation.
    ampdu_frames: 1,
    window_frames: 1,
    ampdu_bytes: 65_535,
    ampdu_ns: 5_484 * US,
    // Chosen: no loss by default.
    loss_ppm: 0,
    // Chosen: similar to drivers' queues, and enough to fill several transmissions.
    queue_frames: 512,
    ap_queue_frames: 2048,
    // 100 units of 1,024 us: not in the standard, but used by nearly all access points.
    beacon_every_ns: 102_400 * US,
    // Chosen: usual with the elements of 802.11n.
    beacon_bytes: 250,
    // Chosen: a short Ethernet cable, its switch and the driver.
    wire_ns: 10 * US,
};

const DOT_11G: Dcf = Dcf {
    sifs_ns: 10 * US,
    // ERP-OFDM adds a signal extension of 6 us.
    signal_extension_ns: 6 * US,
    // Short slots, as allowed in a cell without 802.11b. Chosen: long slots are 20 us.
    slot_ns: 9 * US,
    ..DOT_11A
};

/// The network of P1: Nexus 7 (2013) and the router. One antenna and 20 MHz at 2.4 GHz, so 65 Mbit/s at most.
const DOT_11N_2014: Dcf = Dcf {
    // Best effort of EDCA.
    aifs_slots: 3,
    // HT mixed format with one stream.
    preamble_ns: 36 * US,
    rate_bps: 65 * MBIT,
    // MAC header 26 with its QoS field, LLC and SNAP 8, checksum 4.
    overhead_bytes: 38,
    // Fitted to one figure of P1 (7: without aggregation of requests, throughput grows up to eight nodes), see docs/models.md. The papers do not
    // mention the tablets' aggregation. 64 is the most that a block acknowledgement covers.
    ampdu_frames: 64,
    window_frames: 64,
    ..DOT_11G
};

const DOT_11N: Dcf = Dcf {
    aifs_slots: 3,
    // HT mixed format with two streams: 36 us plus a training field of 4 us.
    preamble_ns: 40 * US,
    // MCS 15 in 40 MHz with the short guard interval. Chosen: what two antennas reach nearby.
    symbol_ns: 3_600,
    rate_bps: 300 * MBIT,
    overhead_bytes: 38,
    ampdu_frames: 64,
    window_frames: 64,
    ..DOT_11A
};

const DOT_11AC: Dcf = Dcf {
    // VHT with two streams.
    preamble_ns: 44 * US,
    // MCS 9 in 80 MHz with the short guard interval: 3,120 bits per symbol. Chosen, like MCS 15 above.
    rate_bps: 866_666_667,
    ampdu_bytes: 1_048_575,
    ..DOT_11N
};

const DOT_11AX: Dcf = Dcf {
    // HE with two streams: 36 us, and two training fields of 7.2 us.
    preamble_ns: 50_400,
    // MCS 11 in 80 MHz with the guard interval of 0.8 us: 16,333 bits per symbol. Chosen, like MCS 15 above.
    symbol_ns: 13_600,
    rate_bps: 1_200_980_392,
    block_ack_bytes: 56,
    ampdu_frames: 256,
    window_frames: 256,
    ampdu_bytes: 6_500_631,
    ..DOT_11N
};

/// All chosen: a line like that of a well-connected office.
const WAN: Line = Line { rate_bps: 100 * MBIT, delay_ns: 10 * MS, jitter_ns: 0, loss_ppm: 0, queue_frames: 1000 };
