//! System calls that Android forbids, and their handling.
//!
//! The binaries are built for plain Linux and detect Android at run time ([`is_android`]). The rule is to make no call that
//! Android might forbid; [`sigsys`] is for those that the standard library and the C library make by themselves.
//! docs/android-traps.md says what is forbidden where, and how that is known.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod names;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod sigsys;

pub use flashmob_host::is_android;

/// Names of the system calls that the system forbade so far and that were answered with ENOSYS; in order.
#[must_use]
pub fn forbidden_calls() -> Vec<String> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return sigsys::answered().into_iter().map(names::of).collect();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    Vec::new()
}

/// Logs the forbidden calls if there are more than `told`, and returns their number.
pub fn tell_forbidden_calls(told: usize) -> usize {
    let calls = forbidden_calls();
    if calls.len() > told {
        log::debug!("system calls forbidden by this system, done without: {}", calls.join(", "));
    }
    calls.len()
}
