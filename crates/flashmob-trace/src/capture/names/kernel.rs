//! Loading a program with bpf(2), which has no libc wrapper.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::program::Instruction;

const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
/// The helper functions used are available to GPL-compatible programs only.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// The attributes of BPF_PROG_LOAD that are needed.
#[repr(C)]
struct Load {
    program_type: u32,
    instructions: u32,
    first: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The attributes of BPF_RAW_TRACEPOINT_OPEN.
#[repr(C)]
struct Open {
    name: u64,
    program: u32,
    unused: u32,
}

/// Attaches the program to the raw tracepoint `event` on all CPUs, until the returned descriptor is closed.
pub fn attach(program: &[Instruction], event: &CStr) -> io::Result<OwnedFd> {
    let load = Load {
        program_type: BPF_PROG_TYPE_RAW_TRACEPOINT,
        instructions: u32::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        first: program.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the attributes, the instructions and the licence outlive the call, which reads no more than the given lengths.
    let loaded = owned(unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<Load>()) })?;
    let open = Open { name: event.as_ptr() as u64, program: loaded.as_raw_fd() as u32, unused: 0 };
    // SAFETY: the attributes and the name outlive the call, and the kernel takes its own reference to the program.
    owned(unsafe { libc::syscall(libc::SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &raw const open, size_of::<Open>()) })
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match libc::c_int::try_from(fd) {
        // SAFETY: the kernel has just returned it, and nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
