//! The loop that takes requests in, on the fibers from which it asks.

use super::Asker;
use super::runner::Inside;
use curtail_fiber::Suspend;
use std::panic::resume_unwind;
use std::ptr;

/// A loop that takes requests in. Its steps stage questions and never ask them, so that nothing
/// refers to the loop while the application runs.
pub(crate) trait Loop {
    fn asker(&mut self) -> &mut Asker;

    /// Deals with what was answered; that may stage more.
    fn answer(&mut self);

    /// Nothing is staged or answered: ends the turn, and begins the next; false: the loop has ended.
    fn turn(&mut self) -> bool;
}

/// Runs a loop to its end, on the calling kthread, which asks by `this`' asker. Returns here, to the
/// kthread's own stack, only where a fiber is parked or the loop ends.
///
/// # Panics
/// Where the loop panics.
pub(crate) fn drive<L: Loop>(this: &mut L) {
    let this: *mut L = ptr::from_mut(this);
    loop {
        // SAFETY: no fiber runs here, so this is the only reference into the loop; it ends with the
        // call. So below.
        let number = unsafe { (*this).asker().take_spare() };
        // SAFETY: the loop stays where it is, and the asker makes no reference to a runner in use.
        let why = unsafe { (*(*this).asker().runner(number)).begin(lead::<L>, this.cast()) };
        // SAFETY: as above.
        let asker = unsafe { (*this).asker() };
        match why {
            Suspend::Panicked(payload) => resume_unwind(payload),
            Suspend::Done => return asker.put_back(number),
            why => asker.park(number, &why),
        }
    }
}

/// A runner's task: has the loop until that ends, or until this fiber has been parked.
///
/// # Safety
/// `argument` is a runner's inside, whose loop is an `L` that nothing else refers to while this has
/// it.
unsafe fn lead<L: Loop>(argument: *mut ()) {
    // SAFETY: by contract; it stays where it is as long as the fiber has a task.
    let inside = unsafe { &*argument.cast::<Inside>() };
    let this: *mut L = inside.has.get().cast();
    loop {
        // SAFETY: by contract. Each reference into the loop ends with its call: none is alive while
        // the application is asked, when another runner may get the loop.
        while let Some((id, inquiry)) = unsafe { (*this).asker().next() } {
            // SAFETY: it is this runner's until it is answered, and stays where it is.
            unsafe { inside.ask(id, inquiry) };
            if inside.is_parked() {
                return;
            }
            // SAFETY: as above; this runner still has the loop.
            unsafe { (*this).asker().note_answered(id) };
        }
        // SAFETY: as above.
        unsafe {
            if (*this).asker().has_answered() {
                (*this).answer();
            } else if !(*this).turn() {
                return;
            }
        }
    }
}
