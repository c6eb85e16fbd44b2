//! Stacks on a signal.

use std::io::{self, Write};

/// Prints the stacks of all threads, and of the threads and requests of Curtail's that are
/// suspended, to standard error whenever `signal` comes (such as `signal_hook::consts::SIGUSR1`, or
/// 10).
///
/// # Errors
/// The signal can't be caught, or there is no thread.
pub fn stacks_on(signal: i32) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([signal])?;
    let wait = move || {
        for _ in signals.forever() {
            // Where it can't be written, there is nothing to do about it.
            let _ = io::stderr().write_all(crate::stacks::now().text().as_bytes());
        }
    };
    std::thread::Builder::new().name("stacks".to_owned()).spawn(wait).map(drop)
}
