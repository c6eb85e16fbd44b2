//! When memory goes back to the kernel: after a peak.
//!
//! What is freed in the middle of a heap stays the process's until the allocator is asked for it.
//! That takes milliseconds, so it is asked once a peak, and by a thread of its own.

use std::time::{Duration, Instant};

/// A peak has at least so many bytes.
const MUCH: usize = 1 << 20;
/// The allocator is not asked more often.
const PAUSE: Duration = Duration::from_secs(1);

/// How many bytes are used by something that grows and shrinks; its owner's alone.
#[derive(Debug, Default)]
pub struct PeakTrim {
    /// The most since the allocator was last asked, and when that was.
    peak: usize,
    asked: Option<Instant>,
}

impl PeakTrim {
    /// So many bytes are used now. Where many more were, the allocator gives back what it keeps of
    /// them; true: it was asked to.
    #[inline]
    pub fn note(&mut self, used: usize) -> bool {
        self.peak = self.peak.max(used);
        self.peak >= MUCH && used < self.peak / 8 && self.ask(used)
    }

    #[cold]
    fn ask(&mut self, used: usize) -> bool {
        let now = Instant::now();
        let is_time = self.asked.is_none_or(|last| now - last >= PAUSE);
        if is_time {
            (self.peak, self.asked) = (used, Some(now));
            give_back_to_kernel();
        }
        is_time
    }
}

/// Has the allocator give back what it keeps of freed memory, soon.
pub fn give_back_to_kernel() {
    #[cfg(target_env = "gnu")]
    {
        let life = || {
            // SAFETY: it may be called at any time, by any thread.
            unsafe { libc::malloc_trim(0) };
        };
        // Without a thread for it, the memory stays for later requests.
        let _ = std::thread::Builder::new().name("curtail-trim".to_owned()).spawn(life);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_after_a_peak() {
        let mut ebb = PeakTrim::default();
        assert!(!ebb.note(MUCH - 1) && !ebb.note(0), "that was little");
        assert!(!ebb.note(80 * MUCH) && !ebb.note(10 * MUCH), "there is still much");
        assert!(ebb.note(9 * MUCH) && !ebb.note(9 * MUCH));
        // What is left of it is a peak of its own.
        assert!(!ebb.note(0), "so soon");
        ebb.asked = None;
        assert!(ebb.note(0) && !ebb.note(0));
    }
}
