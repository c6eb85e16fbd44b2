//! By which clock a condition variable of C counts its time limits: an attribute from its making
//! (`pthread_condattr_setclock`), which POSIX gives no way to ask for later.
//!
//! Any thread's. glibc keeps it in a bit of the variable, whose place has changed from version to
//! version. So that is found out here, once, from two variables that differ in their clocks alone.

use libc::{c_void, clockid_t, pthread_cond_t};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const WORDS: usize = size_of::<pthread_cond_t>() / size_of::<u32>();
const _: () = assert!(align_of::<pthread_cond_t>() >= align_of::<u32>());

/// Where a set bit means the monotonic clock: the number of a word, and the bit in it.
type Place = (usize, u32);

/// The clock of an initialised variable. The real-time one, where this C library hides it well.
///
/// # Safety
/// `cond` points to an initialised `pthread_cond_t`.
pub(crate) unsafe fn of(cond: *mut c_void) -> clockid_t {
    static PLACE: OnceLock<Option<Place>> = OnceLock::new();
    // SAFETY: by contract; the word lies within. libc's functions change it atomically.
    let is_set = |(word, bit): Place| unsafe {
        let word: *const AtomicU32 = cond.cast::<AtomicU32>().add(word);
        (*word).load(Ordering::Relaxed) & bit != 0
    };
    match PLACE.get_or_init(find).is_some_and(is_set) {
        true => libc::CLOCK_MONOTONIC,
        false => libc::CLOCK_REALTIME,
    }
}

fn find() -> Option<Place> {
    let (real, monotonic) = (words(libc::CLOCK_REALTIME)?, words(libc::CLOCK_MONOTONIC)?);
    let mut differ = (0..WORDS).filter(|&word| real[word] != monotonic[word]);
    let (word, more) = (differ.next()?, differ.next());
    let bit = real[word] ^ monotonic[word];
    let is_one = more.is_none() && bit.is_power_of_two() && monotonic[word] & bit != 0;
    is_one.then_some((word, bit))
}

/// What a fresh variable of that clock consists of.
fn words(clock: clockid_t) -> Option<[u32; WORDS]> {
    let mut attributes = MaybeUninit::uninit();
    let mut cond = MaybeUninit::<pthread_cond_t>::zeroed();
    // SAFETY: each is initialised before it is used, and no other code knows of them; all bytes of
    // the variable are initialised, by the zeroes.
    unsafe {
        let attributes = attributes.as_mut_ptr();
        if libc::pthread_condattr_init(attributes) != 0 {
            return None;
        }
        let made = libc::pthread_condattr_setclock(attributes, clock) == 0
            && libc::pthread_cond_init(cond.as_mut_ptr(), attributes) == 0;
        let words = made.then(|| cond.as_ptr().cast::<[u32; WORDS]>().read());
        if made {
            libc::pthread_cond_destroy(cond.as_mut_ptr());
        }
        libc::pthread_condattr_destroy(attributes);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_c_library_keeps_the_clock_in_one_bit() {
        assert!(find().is_some());
        let mut plain = libc::PTHREAD_COND_INITIALIZER;
        // SAFETY: initialised.
        assert_eq!(unsafe { of((&raw mut plain).cast()) }, libc::CLOCK_REALTIME);
    }
}
