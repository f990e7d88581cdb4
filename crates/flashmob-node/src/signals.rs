//! Stopping on a signal.

/// Calls `stop` on SIGTERM and SIGINT; ends the process at once on a second one. SIGHUP is left unchanged, so that
/// `nohup` works.
///
/// # Errors
/// The handlers or the thread cannot be made.
pub fn on_signal(stop: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let mut asked = false;
    each_signal(move || {
        if asked {
            std::process::exit(130);
        }
        asked = true;
        log::info!("stopping: completing requests in progress; signal again to stop at once");
        stop();
    })
}

/// Calls `handle`, on a thread of its own, for each SIGTERM and SIGINT.
///
/// # Errors
/// The handlers or the thread cannot be made.
pub fn each_signal(mut handle: impl FnMut() + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_string()).stack_size(128 * 1024).spawn(move || {
        for _ in signals.forever() {
            handle();
        }
    })?;
    Ok(())
}
