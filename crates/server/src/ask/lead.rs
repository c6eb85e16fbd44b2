//! The loop that takes requests in, as the task from which it asks.

use super::Asker;
use super::runner::Runner;
use curtail_rt::thread::Left;
use std::panic::resume_unwind;
use std::ptr;

/// A loop that takes requests in. Its steps stage questions and never ask them, so that nothing
/// refers to the loop while the application runs.
pub(crate) trait Loop {
    fn asker(&mut self) -> &mut Asker;

    /// Deals with what was answered; that may stage more.
    fn handle_answers(&mut self);

    /// Nothing is staged or answered: ends the turn, and begins the next; false: the loop has ended.
    fn turn(&mut self) -> bool;
}

/// Runs a loop to its end, on the calling kthread, which asks by `this`' asker. Returns here, to the
/// kthread's own stack, only where a task is parked or the loop ends.
///
/// # Panics
/// Where the loop panics.
pub(crate) fn drive<L: Loop>(this: &mut L) {
    let this: *mut L = ptr::from_mut(this);
    loop {
        // SAFETY: no task runs here, so this is the only reference into the loop; it ends with the
        // call. So below.
        let (runner, leading) = unsafe {
            let asker = (*this).asker();
            (asker.take_spare(), asker.leading.clone())
        };
        // SAFETY: the loop stays where it is; the runner is idle.
        let why = unsafe { Runner::begin(runner, &leading, (lead::<L>, this.cast())) };
        // SAFETY: as above; the runner is all cells.
        let (asker, panic) = unsafe { ((*this).asker(), (*runner).take_panic()) };
        match (why, panic) {
            (Left::Ended, Some(panic)) => resume_unwind(panic),
            (Left::Ended, None) => return asker.put_back(runner),
            (why, _) => asker.park(runner, why),
        }
    }
}

/// What a runner does: it has the loop until that ends, or until it has been parked.
///
/// # Safety
/// The runner's loop is an `L` that nothing else refers to while this has it.
unsafe fn lead<L: Loop>(runner: &Runner) {
    let this: *mut L = runner.has.get().cast();
    loop {
        // SAFETY: by contract. Each reference into the loop ends with its call: none is alive while
        // the application is asked, when another runner may get the loop.
        while let Some((id, inquiry)) = unsafe { (*this).asker().next() } {
            // SAFETY: it is this runner's until it is answered, and stays where it is.
            unsafe { runner.ask(id, inquiry) };
            if runner.is_parked() {
                return;
            }
            // SAFETY: as above; this runner still has the loop.
            unsafe { (*this).asker().note_answered(id) };
        }
        // SAFETY: as above.
        unsafe {
            if (*this).asker().has_answered() {
                (*this).handle_answers();
            } else if !(*this).turn() {
                return;
            }
        }
    }
}
