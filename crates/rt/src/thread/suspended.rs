//! What is suspended, for people: the threads and requests that wait, or wait for their turn, by
//! the functions on their stacks.
//!
//! Any thread may ask. Stacks are copied from outside ([`curtail_fiber::suspended`]), so a kthread
//! that is stuck keeps nothing from being seen, and one that runs is not held up. What a control
//! block says of a thread is read in the same way: as bytes, which may be of something else by
//! then.

use super::kthread::Shared;
use super::tcb::{Block, Tcb};
use super::unwind::{Unwinding, names_at};
use curtail_fiber::{ContextKind, peek};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::offset_of;

/// Stacks that are looked at, at most.
const STACKS: usize = 4_096;
/// Different ones that are printed.
const DIFFERENT: usize = 256;
/// Numbers and names that are printed of those with the same stack.
const FEW: usize = 8;
/// Words of a stack that are copied, at most.
const WORDS: usize = 4_096;
/// Bytes of a name.
const LONGEST_NAME: usize = 64;

/// Threads or requests that are suspended with the same functions on their stacks: they wait for
/// something, or for their turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuspendedStack {
    /// Requests in progress have these stacks; otherwise, threads.
    pub requests: bool,
    /// Their class.
    pub class: u16,
    /// How many there are.
    pub count: usize,
    /// The numbers of the first few, which are those of recordings ([`crate::timeline`]).
    pub numbers: Vec<u32>,
    /// Names of the first few threads that have one.
    pub names: Vec<String>,
    /// The functions on their stacks, innermost first.
    pub frames: Vec<String>,
}

/// What is suspended: see [`suspended`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspended {
    /// The most frequent stacks first; 256 at most.
    pub stacks: Vec<SuspendedStack>,
    /// How many more threads and requests there are: beyond the first 4,096, with yet other stacks,
    /// or that went on again and again while they were looked at.
    pub left_out: usize,
}

/// The threads and requests of this process that are suspended, of all runtimes, servers and pools,
/// with their stacks. Those that run are on the kernel's threads: see [`stacks`](crate::stacks).
/// Nothing is stopped; each stack is as it was at one moment, and not all are of the same. What was
/// left behind when its server ended may be among them.
#[must_use]
pub fn suspended() -> Suspended {
    look(STACKS, DIFFERENT)
}

/// Whose stack it is, as far as that tells stacks apart.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    requests: bool,
    class: u16,
    frames: Vec<u64>,
}

#[derive(Default)]
struct Group {
    count: usize,
    numbers: Vec<u32>,
    names: Vec<String>,
}

fn look(most: usize, different: usize) -> Suspended {
    let mut unwinding = Unwinding::new();
    let mut groups: HashMap<Key, Group> = HashMap::new();
    let (mut looked, mut left_out) = (0, 0);
    for found in curtail_fiber::suspended() {
        let Some(who) = Who::of(&found) else { continue };
        looked += 1;
        let copy = if looked <= most { found.copy(WORDS) } else { None };
        let Some(mut copy) = copy else {
            left_out += 1;
            continue;
        };
        // Of the call after which it goes on, as it is for all frames but an innermost one that
        // runs.
        copy.ip = copy.ip.wrapping_sub(1);
        let frames = unwinding.frames(&copy);
        let key = Key { requests: who.is_request, class: found.label.class, frames };
        if groups.len() == different && !groups.contains_key(&key) {
            left_out += 1;
            continue;
        }
        let group = groups.entry(key).or_default();
        group.count += 1;
        if group.numbers.len() < FEW {
            group.numbers.push(who.number);
        }
        if group.names.len() < FEW {
            group.names.extend(who.name());
        }
    }
    Suspended { stacks: named(groups), left_out }
}

fn named(groups: HashMap<Key, Group>) -> Vec<SuspendedStack> {
    let mut names: HashMap<u64, Vec<String>> = HashMap::new();
    let mut names_of =
        |address: u64| names.entry(address).or_insert_with(|| names_at(address)).clone();
    let mut stacks: Vec<_> = groups
        .into_iter()
        .map(|(Key { requests, class, frames }, Group { count, numbers, names })| SuspendedStack {
            requests,
            class,
            count,
            numbers,
            names,
            frames: frames.into_iter().flat_map(&mut names_of).collect(),
        })
        .collect();
    stacks.sort_by(|a, b| (Reverse(a.count), &a.numbers).cmp(&(Reverse(b.count), &b.numbers)));
    stacks
}

/// What is suspended.
struct Who {
    is_request: bool,
    number: u32,
    /// Of a spawned thread: its block.
    block: Option<usize>,
}

impl Who {
    /// `None`: its kthread has ended without it.
    fn of(found: &curtail_fiber::Suspended) -> Option<Self> {
        // A context is the first field of its control block, and a thread's is that of its block.
        let tcb = found.context;
        let home = word_at(tcb + offset_of!(Tcb, home))?;
        Shared::is_alive_at(home).then_some(())?;
        Some(match found.kind {
            ContextKind::Thread => {
                Self { is_request: false, number: Tcb::number_at(tcb), block: Some(tcb) }
            }
            _ => Self { is_request: true, number: found.label.job as u32, block: None },
        })
    }

    fn name(&self) -> Option<String> {
        let named = self.block? + offset_of!(Block, named);
        let (address, length) = (word_at(named)?, word_at(named + size_of::<usize>())?);
        let mut bytes = [0; LONGEST_NAME];
        let bytes = &mut bytes[..length.min(LONGEST_NAME)];
        (!bytes.is_empty() && peek(address, bytes))
            .then(|| String::from_utf8_lossy(bytes).into_owned())
    }
}

fn word_at(address: usize) -> Option<usize> {
    let mut word = [0; size_of::<usize>()];
    peek(address, &mut word).then_some(usize::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, Semaphore};

    #[inline(never)]
    fn waits_with_many_others(room: &Semaphore) {
        let permit = room.acquire();
        std::hint::black_box(&permit);
    }

    fn is_here(stack: &&SuspendedStack) -> bool {
        stack.frames.iter().any(|frame| frame.contains("waits_with_many_others"))
    }

    /// Some functions need more stack than a thread has.
    fn look_from_outside(most: usize, different: usize) -> Suspended {
        crate::blocking(move || look(most, different))
    }

    #[test]
    fn what_is_beyond_the_bounds_is_counted() {
        crate::Runtime::builder().kthreads(1).run(|| {
            let room = Arc::new(Semaphore::new(0));
            let wait = |index| {
                let room = room.clone();
                let thread = crate::Builder::new().name(format!("waiter-{index}"));
                thread.spawn(move || waits_with_many_others(&room)).unwrap()
            };
            let threads: Vec<_> = (0..20).map(wait).collect();
            // One kthread runs them in turn, each up to its wait, and this one in between.
            (0..100).for_each(|_| crate::yield_now());
            let all = look_from_outside(STACKS, DIFFERENT);
            let here: Vec<_> = all.stacks.iter().filter(is_here).collect();
            let [group] = here[..] else { panic!("of one stack: {all:?}") };
            assert_eq!((group.count, group.requests), (20, false), "{group:?}");
            assert_eq!((group.numbers.len(), group.names.len()), (FEW, FEW));
            assert!(group.names.iter().all(|name| name.starts_with("waiter-")), "{group:?}");
            // Of a few, whichever come first.
            let few = look_from_outside(5, DIFFERENT);
            assert!(few.left_out >= 15 && few.stacks.len() <= 5, "{few:?}");
            let none = look_from_outside(STACKS, 0);
            assert!(none.left_out >= 20 && none.stacks.is_empty(), "{none:?}");
            room.add_permits(1);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
