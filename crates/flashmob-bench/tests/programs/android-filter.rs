//! Runs a program under the filter of system calls that an Android release puts over its apps.
//!
//!     android-filter [--c-library] DATA RELEASE COMMAND...       runs COMMAND under it
//!     android-filter DATA RELEASE --probe NAME                   makes one system call under it, without a handler
//!     android-filter DATA RELEASE --list                         prints what this machine may call
//!
//! DATA is crates/flashmob/tests/data/android; RELEASE is 8, 10, 13 or 15. The lists are of ARM. A machine with 64 bits takes that
//! of 64-bit ARM, one with 32 bits the other: a call that both know is judged by its name, and one that ARM does not have (open,
//! poll, ...) by what the same source calls there instead ([`TWINS`]). Everything else raises SIGSYS, as on Android.
//!
//! With `--c-library` three calls of this machine's C library are answered ENOSYS by the filter itself. glibc makes
//! them before any handler can stand, or with all signals blocked; the binaries for Android have another C library, which makes none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;

/// Calls that ARM has no number for, and what does their work there.
const TWINS: &[(&str, &str)] = &[
    ("access", "faccessat"),
    // The register that threads find their memory by.
    ("arch_prctl", "set_tid_address"),
    ("chmod", "fchmodat"),
    ("creat", "openat"),
    ("dup2", "dup3"),
    ("epoll_create", "epoll_create1"),
    ("epoll_wait", "epoll_pwait"),
    ("eventfd", "eventfd2"),
    ("fadvise64_64", "arm_fadvise64_64"),
    ("fork", "clone"),
    ("getdents", "getdents64"),
    ("getpgrp", "getpgid"),
    ("link", "linkat"),
    ("lstat", "newfstatat"),
    ("mkdir", "mkdirat"),
    ("open", "openat"),
    ("pipe", "pipe2"),
    ("poll", "ppoll"),
    ("readlink", "readlinkat"),
    ("rename", "renameat"),
    ("rmdir", "unlinkat"),
    ("select", "pselect6"),
    ("set_thread_area", "__ARM_NR_set_tls"),
    ("socketcall", "socket"),
    ("stat", "newfstatat"),
    ("symlink", "symlinkat"),
    ("sync_file_range", "sync_file_range2"),
    ("unlink", "unlinkat"),
    ("vfork", "clone"),
    ("waitpid", "wait4"),
];
/// What glibc calls while it starts a program, and while it starts a thread.
const OF_THE_C_LIBRARY: [&str; 3] = ["rseq", "set_robust_list", "clone3"];

#[cfg(target_pointer_width = "64")]
const WIDTH: (&str, &str, &str) = ("64", "x86_64", "arm64");
#[cfg(target_pointer_width = "32")]
const WIDTH: (&str, &str, &str) = ("32", "i386", "arm");
/// How the kernel calls this machine's system calls (linux/audit.h).
const AUDIT_ARCH: u32 = if cfg!(target_pointer_width = "64") { 0xc000_003e } else { 0x4000_0003 };

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What this machine calls, by name: its own numbers, and whether the release allows them.
struct Policy {
    numbers: BTreeMap<String, u32>,
    allowed: BTreeSet<String>,
}

fn policy(data: &Path, release: &str) -> Outcome<Policy> {
    let read = |name: String| std::fs::read_to_string(data.join(&name)).map_err(|e| format!("{name}: {e}"));
    let list = read(format!("{release}-{}.txt", WIDTH.0))?;
    let listed: BTreeSet<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let table = read("numbers.txt".to_string())?;
    let mut rows = table.lines().filter(|line| !line.starts_with('#')).map(|l| l.split(' ').collect::<Vec<_>>());
    let head = rows.next().ok_or("numbers.txt is empty")?;
    let column = |name| head.iter().position(|&column| column == name).ok_or("numbers.txt has no such column");
    let (here, there) = (column(WIDTH.1)?, column(WIDTH.2)?);
    let (mut numbers, mut allowed) = (BTreeMap::new(), BTreeSet::new());
    for row in rows {
        let name = row[0];
        let Ok(number) = row[here].parse() else { continue };
        numbers.insert(name.to_string(), number);
        let twin = TWINS.iter().find(|(legacy, _)| *legacy == name).map(|(_, twin)| *twin);
        let judged = if row[there] == "-" { twin } else { Some(name) };
        if judged.is_some_and(|judged| listed.contains(judged)) {
            allowed.insert(name.to_string());
        }
    }
    Ok(Policy { numbers, allowed })
}

fn program(policy: &Policy, answered: &[&str]) -> Vec<libc::sock_filter> {
    let code = |parts: u32| parts as u16;
    let load = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
    let (equal, give) = (code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), code(libc::BPF_RET | libc::BPF_K));
    // SAFETY: these make values out of numbers.
    let (statement, jump) =
        (|c, k| unsafe { libc::BPF_STMT(c, k) }, |k, yes, no| unsafe { libc::BPF_JUMP(equal, k, yes, no) });
    // The architecture lies behind the number.
    let mut program = vec![statement(load, 4), jump(AUDIT_ARCH, 1, 0), statement(give, libc::SECCOMP_RET_TRAP)];
    program.push(statement(load, 0));
    let mut judge = |name: &str, verdict| {
        if let Some(&number) = policy.numbers.get(name) {
            program.extend([jump(number, 0, 1), statement(give, verdict)]);
        }
    };
    policy.allowed.iter().for_each(|name| judge(name, libc::SECCOMP_RET_ALLOW));
    answered.iter().for_each(|name| judge(name, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    program.push(statement(give, libc::SECCOMP_RET_TRAP));
    program
}

fn install(program: &mut [libc::sock_filter]) -> Outcome<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives through the calls.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(format!("the filter was refused: {}", std::io::Error::last_os_error()).into()) }
}

fn run() -> Outcome<()> {
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    let answered: &[&str] = if args.first().is_some_and(|first| first == "--c-library") {
        args.remove(0);
        &OF_THE_C_LIBRARY
    } else {
        &[]
    };
    let [data, release, command @ ..] = args.as_slice() else { return Err("see the head of this file".into()) };
    let policy = policy(Path::new(data), &release.to_string_lossy())?;
    let mut program = program(&policy, answered);
    match command {
        [list] if list == "--list" => {
            policy.allowed.iter().for_each(|name| println!("{name}"));
            Ok(())
        }
        [probe, name] if probe == "--probe" => {
            let number = policy.numbers.get(name.to_string_lossy().as_ref()).ok_or("no such system call here")?;
            install(&mut program)?;
            // SAFETY: with null for every argument the calls that are asked for do nothing, or fail.
            let result = unsafe { libc::syscall(*number as libc::c_long, 0, 0, 0, 0, 0, 0) };
            println!("{} answered {result}", name.to_string_lossy());
            Ok(())
        }
        [] => Err("give a command".into()),
        command => {
            let words: Vec<CString> =
                command.iter().map(|word| CString::new(word.clone().into_vec())).collect::<Result<_, _>>()?;
            let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
            pointers.push(std::ptr::null());
            install(&mut program)?;
            // SAFETY: the words live, and the list of them ends with a null.
            unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
            Err(format!("{}: {}", command[0].to_string_lossy(), std::io::Error::last_os_error()).into())
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("android-filter: {error}");
            ExitCode::from(2)
        }
    }
}
