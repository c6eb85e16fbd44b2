//! How a kthread follows its word: the part of the protocol that programs play, without anything
//! that a program does besides. `tests/protocol.rs` checks it against the allocator's decisions, in
//! all interleavings.
//!
//! **Nothing is lost.** A kthread says that it has parked *before* it looks at its word once more and
//! sleeps on it, and the daemon writes the word *before* it wakes: one sees the other. What the
//! kthread says names the word that it has seen, so that no answer to an older word is taken for one
//! to a newer.

use crate::word::{Ask, Word};

/// A kthread.
pub trait Follower {
    /// What it is asked now.
    fn word(&self) -> Word;
    /// It runs from now on, as the word of that generation says.
    fn say_running(&self, generation: u32);
    /// It has given its core back, and has seen the word of that generation.
    fn say_parked(&self, generation: u32);
    /// Sleeps as long as its word is that one; may end early.
    fn sleep(&self, word: Word);
    /// It has followed an eviction.
    fn wake_heir(&self);
    /// It is to run on without being asked: the daemon has gone, or the program ends.
    fn stops(&self) -> bool;
}

/// Gives the core back, as the answer to `word`, and sleeps until the kthread has a core again, or
/// stops. The word that it has followed then.
pub fn park(kthread: &impl Follower, word: Word) -> Word {
    let mut followed = word;
    answer(kthread, followed);
    while !kthread.stops() {
        let now = kthread.word();
        if now == followed {
            kthread.sleep(now);
            continue;
        }
        followed = now;
        if now.ask() == Ask::Run {
            break;
        }
        answer(kthread, now);
    }
    // Also where no word says so: it runs without the daemon.
    kthread.say_running(followed.generation());
    followed
}

fn answer(kthread: &impl Follower, word: Word) {
    kthread.say_parked(word.generation());
    if word.ask() == Ask::Evict {
        kthread.wake_heir();
    }
}

/// Of a kthread that runs and has followed `followed`: does what it is asked since. The word that it
/// has followed then; it runs.
pub fn look(kthread: &impl Follower, followed: Word) -> Word {
    let now = kthread.word();
    if now == followed {
        return followed;
    }
    match now.ask() {
        Ask::Run => {
            kthread.say_running(now.generation());
            now
        }
        Ask::Park | Ask::Evict => park(kthread, now),
    }
}
