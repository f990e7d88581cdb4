//! System calls that create, look up or remove a file name, and where the kernel keeps their arguments.

#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub name: &'static str,
    /// Its number on this architecture.
    pub number: i64,
    /// Arguments that are file names: argument name and index.
    pub names: &'static [(&'static str, usize)],
}

macro_rules! call {
    ($name:literal, $number:ident, $names:expr) => {
        Call { name: $name, number: libc::$number as i64, names: &$names }
    };
}

/// All of them. Newer architectures only have the `*at` variants.
pub const CALLS: &[Call] = &[
    call!("openat", SYS_openat, [("filename", 1)]),
    call!("openat2", SYS_openat2, [("filename", 1)]),
    call!("unlinkat", SYS_unlinkat, [("pathname", 1)]),
    call!("renameat2", SYS_renameat2, [("oldname", 1), ("newname", 3)]),
    call!("linkat", SYS_linkat, [("oldname", 1), ("newname", 3)]),
    call!("mkdirat", SYS_mkdirat, [("pathname", 1)]),
    #[cfg(not(target_arch = "riscv64"))]
    call!("renameat", SYS_renameat, [("oldname", 1), ("newname", 3)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("open", SYS_open, [("filename", 0)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("creat", SYS_creat, [("pathname", 0)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("unlink", SYS_unlink, [("pathname", 0)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("rename", SYS_rename, [("oldname", 0), ("newname", 1)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("link", SYS_link, [("oldname", 0), ("newname", 1)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("mkdir", SYS_mkdir, [("pathname", 0)]),
    #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
    call!("truncate", SYS_truncate, [("path", 0)]),
];

/// Offsets of the registers in the kernel's `pt_regs` during a system call, in bytes; debuggers rely on the same layout. Values are kept until the call
/// returns.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    pub number: usize,
    /// Its size.
    pub number_bytes: usize,
    /// The first four arguments.
    pub arguments: [usize; 4],
    pub pointer_bytes: usize,
}

/// Those of this architecture, if known.
pub const REGISTERS: Option<Registers> = if cfg!(target_arch = "x86_64") {
    // orig_ax; di, si, dx, r10.
    Some(Registers { number: 120, number_bytes: 8, arguments: [112, 104, 96, 56], pointer_bytes: 8 })
} else if cfg!(target_arch = "aarch64") {
    // After 31 registers, sp, pc and pstate: orig_x0 and syscallno. x0 holds the result by then.
    Some(Registers { number: 280, number_bytes: 4, arguments: [272, 8, 16, 24], pointer_bytes: 8 })
} else if cfg!(target_arch = "arm") {
    // r7; ORIG_r0, r1, r2, r3.
    Some(Registers { number: 28, number_bytes: 4, arguments: [68, 4, 8, 12], pointer_bytes: 4 })
} else {
    None
};
