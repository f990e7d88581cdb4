//! Looks at a device and at a path, says what is wrong, what it costs and what mends it.
//!
//! To look needs no rights, changes nothing and guesses nothing: what cannot be known here is `unknown`. A finding says what it costs, with a
//! figure where a formula gives one, and the command that mends it. Nobody is talked to here: the command line asks and prints.
//!
//! - [`view`]: what can be seen of a device, this one or a copied tree of `/proc` and `/sys`
//! - [`path`]: the way to a peer: round trip, interface, rate, largest packet
//! - [`checks`]: the table of checks, each in a file of its own
//! - [`look`]: all of it at once
//! - [`change`]: a value that can be set, and the command that would
//! - [`undo`]: the file that knows what was there before
//! - [`treat`]: setting values with an undo written first, and putting them back

#![cfg(any(target_os = "linux", target_os = "android"))]

pub mod change;
pub mod checks;
pub mod look;
pub mod path;
pub mod treat;
pub mod undo;
pub mod view;

/// Bytes for people: the largest unit that divides them well enough to be read at a glance.
fn bytes(value: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if value >= unit {
            let whole = value as f64 / unit as f64;
            return if value.is_multiple_of(unit) {
                format!("{} {name}", value / unit)
            } else {
                format!("{whole:.1} {name}")
            };
        }
    }
    format!("{value} bytes")
}

/// Bits per second for people.
fn rate(bits_per_second: f64) -> String {
    let (value, unit) = match bits_per_second {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b if b >= 1e3 => (b / 1e3, "kbit/s"),
        b => (b, "bit/s"),
    };
    if value >= 10.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A time for people.
fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 10.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.01 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.000_1 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}
