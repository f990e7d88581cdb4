//! Names of the system calls that Android is known to forbid some app and that something here, or below, may make.

/// A call with the number that this machine has for it.
type Named = (&'static str, libc::c_long);

#[rustfmt::skip]
const NAMED: &[Named] = &[
    ("accept", libc::SYS_accept),
    ("adjtimex", libc::SYS_adjtimex),
    ("bpf", libc::SYS_bpf),
    ("clone3", libc::SYS_clone3),
    ("close_range", libc::SYS_close_range),
    ("faccessat2", libc::SYS_faccessat2),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("ioprio_get", libc::SYS_ioprio_get),
    ("ioprio_set", libc::SYS_ioprio_set),
    ("membarrier", libc::SYS_membarrier),
    ("mount", libc::SYS_mount),
    ("openat2", libc::SYS_openat2),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("set_robust_list", libc::SYS_set_robust_list),
    ("statx", libc::SYS_statx),
    // Later than the numbers that libc's crate has for every C library.
    ("epoll_pwait2", 441),
    ("fchmodat2", 452),
    ("cachestat", 451),
];

/// Those of 32-bit machines that begin to count seconds in 64 bits.
#[cfg(target_pointer_width = "32")]
#[rustfmt::skip]
const NAMED_TIME64: &[Named] = &[
    ("clock_getres_time64", 406),
    ("clock_gettime64", 403),
    ("clock_nanosleep_time64", 407),
    ("futex_time64", 422),
    ("ppoll_time64", 414),
    ("pselect6_time64", 413),
    ("recvmmsg_time64", 417),
    ("utimensat_time64", 412),
];
#[cfg(not(target_pointer_width = "32"))]
const NAMED_TIME64: &[Named] = &[];

/// The name of a system call, or its number.
pub(super) fn of(number: i32) -> String {
    let named = NAMED.iter().chain(NAMED_TIME64).find(|(_, known)| *known == libc::c_long::from(number));
    named.map_or_else(|| format!("system call {number}"), |(name, _)| (*name).to_string())
}
