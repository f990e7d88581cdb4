//! Forbidden system calls are answered as calls that the kernel does not have.
//!
//! Since Android 8 a filter lets apps make only the system calls that its own C library makes. Another one raises SIGSYS, which ends the
//! process: up to Android 10 statx and clock_gettime64 do, which musl calls on 32 bits. It knows
//! kernels that have neither, and does without when it is told ENOSYS. The handler here tells them: it writes the answer
//! where the call's result belongs, and the program goes on behind the call.
//!
//! It has to stand before the first such call, so the binary names [`install_first`] among the functions that run before `main`.
//!
//! - The handler may run at any system call, on any thread, so it does nothing but atomic loads and stores: no lock, no memory, no
//!   system call, errno untouched.
//! - It runs on the stack of whoever made the call (no SA_ONSTACK): one that makes calls has room for a signal's frame, and the
//!   alternate stacks are of the smallest size that there is.
//! - SIGSYS must not be blocked, for the kernel ends a process whose forced signal is. Nothing here blocks it; what was
//!   inherited is undone.
//! - A SIGSYS that was sent ends the process as if there were no handler.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void, siginfo_t};

/// The code of a SIGSYS that a filter raised; libc's crate has no name for it.
const SYS_SECCOMP: c_int = 1;
/// Maximum number of different calls that are remembered; more than are made here.
const REMEMBERED: usize = 32;
/// Marks a place in which no call is remembered.
const NONE: i32 = -1;

/// The numbers of the calls that were answered, each once.
static ANSWERED: [AtomicI32; REMEMBERED] = [const { AtomicI32::new(NONE) }; REMEMBERED];

/// Answers forbidden calls from now on. It does nothing if that cannot be set up: then forbidden calls end the process, as ever.
///
/// Of the form that functions have that run before `main`; it needs nothing of Rust's runtime.
pub extern "C" fn install_first() {
    // SAFETY: all-zero is a valid value of both structures, and they live through the calls. The handler keeps to what may be
    // done in one: see `on_sigsys`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_sigsys;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) != 0 {
            return;
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGSYS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// The numbers of the calls that were answered so far, in order.
#[must_use]
pub fn answered() -> Vec<i32> {
    let mut numbers: Vec<i32> =
        ANSWERED.iter().map(|place| place.load(Ordering::Relaxed)).filter(|&number| number != NONE).collect();
    numbers.sort_unstable();
    numbers
}

/// The handler. Only what is safe in one: atomics; for a signal that was sent also `sigaction` and `raise`.
extern "C" fn on_sigsys(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t with SA_SIGINFO, and the context that it will restore. Code SYS_SECCOMP means
    // that a filter raised it at a system call of this thread, so its number is there, and the register of the result is for us to set.
    unsafe {
        if (*info).si_code == SYS_SECCOMP {
            remember(number(info));
            set_result(context, -libc::ENOSYS);
            return;
        }
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        // Blocked while this runs; it comes when this returns.
        libc::raise(signal);
    }
}

fn remember(number: i32) {
    for place in &ANSWERED {
        match place.compare_exchange(NONE, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(there) if there == number => return,
            Err(_) => {}
        }
    }
}

/// The number of the system call that a filter trapped.
///
/// # Safety
/// `info` must be of a SIGSYS with the code SYS_SECCOMP.
unsafe fn number(info: *const siginfo_t) -> i32 {
    // Signal, errno and code, up to where a pointer may begin; then the address of the call, a pointer; then the number.
    const AT: usize = (3 * size_of::<c_int>()).next_multiple_of(size_of::<usize>()) + size_of::<usize>();
    // SAFETY: the structure has 128 bytes, and a c_int at this offset.
    unsafe { info.cast::<u8>().add(AT).cast::<c_int>().read() }
}

/// Sets what the interrupted system call returns.
///
/// # Safety
/// `context` must be what the kernel passed to the handler.
unsafe fn set_result(context: *mut c_void, result: c_int) {
    // SAFETY: by the caller, it is a ucontext_t, which nothing else uses while the handler runs.
    unsafe {
        let context = context.cast::<libc::ucontext_t>();
        #[cfg(target_arch = "x86_64")]
        {
            (*context).uc_mcontext.gregs[libc::REG_RAX as usize] = result.into();
        }
        // libc's crate has the same register as c_ulong or c_ulonglong, by C library.
        #[cfg(target_arch = "aarch64")]
        {
            (*context).uc_mcontext.regs[0] = i64::from(result) as _;
        }
        #[cfg(target_arch = "arm")]
        {
            (*context).uc_mcontext.arm_r0 = result as _;
        }
        // Not everywhere does libc's crate name these registers: an array of words, EAX the twelfth.
        #[cfg(target_arch = "x86")]
        {
            (&raw mut (*context).uc_mcontext).cast::<c_int>().add(11).write(result);
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm", target_arch = "x86")))]
compile_error!("say in android/sigsys.rs which register holds a system call's result here");

#[cfg(test)]
mod tests;
