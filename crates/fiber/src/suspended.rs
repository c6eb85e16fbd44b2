//! What is suspended, seen from outside: any thread may look, and what runs is not held up.
//!
//! All stacks lie in slabs that are never unmapped (`overflow`), and a word at each one's top says
//! where its context is ([`Context::prepare`](crate::Context::prepare)). A context has a stack
//! pointer while it is suspended, and none while it runs.
//!
//! **Who touches what.** Memory that belongs to others is read by a system call that copies bytes
//! of this process and does not fault ([`peek`]): they may be old or torn, or of something else by
//! then. No reference into it is made, and what it says is checked before it is used.
//!
//! **The invariant.** A stack is copied twice between two looks at its context. What goes on takes
//! its stack pointer out before it changes anything on its stack, and x86 has stores and loads seen
//! in their order. So if both looks find the same stack pointer and both copies are the same, the
//! copy is the stack as it was while suspended there.

use crate::context::{Bytes, Kind, Label, MARK_BYTES, SAVED, SAVED_BP, SAVED_IP};
use crate::overflow::slabs;
use crate::stack::range_of;
use libc::{c_void, iovec};
use std::ops::Range;
use std::ptr;

/// How often a stack is copied until it stays as it is.
const TRIES: usize = 3;

/// A task that was suspended when it was looked at.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// Where its [`Context`](crate::Context) lies.
    pub context: usize,
    /// Whose stack it is.
    pub kind: Kind,
    /// What it works for.
    pub label: Label,
    stack: Range<usize>,
}

/// A suspended stack, and where it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackCopy {
    /// The instruction after the call of the switch.
    pub ip: usize,
    /// The stack pointer there: the address of the first word.
    pub sp: usize,
    /// The frame pointer.
    pub bp: usize,
    /// What lies on the stack from there on.
    pub words: Vec<usize>,
}

/// What is suspended now. What begins or ends during the look may be seen or not.
pub fn suspended() -> impl Iterator<Item = Suspended> {
    slabs().flat_map(|(low, slot, slots)| {
        let stacks: Vec<_> = (0..slots).map(|index| range_of(low, slot, index)).collect();
        let contexts = marks(&stacks);
        stacks.into_iter().zip(contexts).filter_map(|(stack, context)| look(context, stack))
    })
}

/// The words at the tops of stacks; 0 from the first on that can't be read.
fn marks(stacks: &[Range<usize>]) -> Vec<usize> {
    let mut words = vec![0; stacks.len()];
    let local = iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words[..]) };
    let mark = |stack: &Range<usize>| iovec {
        iov_base: ptr::without_provenance_mut(stack.end - MARK_BYTES),
        iov_len: size_of::<usize>(),
    };
    let remote: Vec<iovec> = stacks.iter().map(mark).collect();
    // SAFETY: the kernel writes to our words; what it can't read, it does not.
    unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as u64,
            0,
        )
    };
    words
}

fn look(context: usize, slot: Range<usize>) -> Option<Suspended> {
    let bytes = context_at(context)?;
    let stack = Some(bytes.stack()).filter(|it| it.start >= slot.start && it.end <= slot.end)?;
    let (_, kind) = bytes.suspended(context, &stack)?;
    Some(Suspended { context, kind, label: bytes.label(), stack })
}

fn context_at(address: usize) -> Option<Bytes> {
    let mut bytes = Bytes([0; Bytes::COUNT]);
    (address != 0 && peek(address, &mut bytes.0)).then_some(bytes)
}

impl Suspended {
    /// Its stack, as far as `most` words; `None`: it has gone on, or does so again and again.
    #[must_use]
    pub fn copy(&self, most: usize) -> Option<StackCopy> {
        (0..TRIES).find_map(|_| self.try_copy(most))
    }

    fn sp(&self) -> Option<usize> {
        let (sp, _) = context_at(self.context)?.suspended(self.context, &self.stack)?;
        Some(sp)
    }

    fn try_copy(&self, most: usize) -> Option<StackCopy> {
        let sp = self.sp()?;
        let left = self.stack.end.checked_sub(sp)? / size_of::<usize>();
        let count = left.min(most.saturating_add(SAVED));
        let mut words = words_at(sp, count)?;
        if count < SAVED || words_at(sp, count)? != words || self.sp()? != sp {
            return None;
        }
        let (ip, bp) = (words[SAVED_IP], words[SAVED_BP]);
        words.drain(..SAVED);
        Some(StackCopy { ip, sp: sp + SAVED * size_of::<usize>(), bp, words })
    }
}

fn words_at(address: usize, count: usize) -> Option<Vec<usize>> {
    let mut bytes = vec![0; count * size_of::<usize>()];
    let whole = peek(address, &mut bytes);
    let words = bytes.as_chunks().0.iter().map(|&word| usize::from_ne_bytes(word));
    whole.then(|| words.collect())
}

/// Copies what lies at an address of this process, whatever that is; false: not all of it can be
/// read. It may be changed meanwhile.
#[must_use]
pub fn peek(address: usize, into: &mut [u8]) -> bool {
    let base: *mut c_void = into.as_mut_ptr().cast();
    let local = iovec { iov_base: base, iov_len: into.len() };
    let remote = iovec { iov_base: ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the kernel writes to the caller's bytes; what it can't read, it does not.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(copied) == Ok(into.len())
}
