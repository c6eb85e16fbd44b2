//! What is known of the program's descriptors, by number, and how threads wait for them.
//!
//! From any thread. What is known may be out of date: the C library opens and closes some by itself. So
//! nothing here is relied on where that would lose anything: before a wait it is asked anew which file that
//! is, and whether the program has it in blocking mode.

use crate::handlers::{self, Waiting};
use crate::registry;
use curtail_rt::block::{Deadline, Spin};
use curtail_rt::kernel::kernel;
use curtail_rt::socket::{Side, Source};
use libc::{c_int, c_long};
use std::alloc::Layout;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

const CHUNK: usize = 1_024;
const CHUNKS: usize = 1_024;

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Unknown = 0,
    /// Reading it does not wait for others: a file.
    File,
    Socket,
    /// A pipe, a terminal, an event counter.
    Other,
}

const CLASSES: [Class; 4] = [Class::Unknown, Class::File, Class::Socket, Class::Other];
/// Of [`Entry::known`]: the class.
const CLASS: u8 = 3;
/// The program has it in non-blocking mode.
const NONBLOCKING: u8 = 1 << 2;
/// The kernel can't be asked to read or write without waiting.
const NO_NOWAIT: u8 = 1 << 3;
/// The program has set a limit to its waits.
const HAS_TIMEOUT: u8 = 1 << 4;
/// Threads have waited for it.
const HAS_SOURCE: u8 = 1 << 5;
/// It was an epoll when they did.
const EPOLL: u8 = 1 << 6;

/// Which file: device and number. Those of the kernel's without a place have one in common.
type Identity = (u64, u64);

/// What is known of one descriptor.
pub(crate) struct Entry {
    known: AtomicU8,
    source: Spin<Option<(Identity, Source)>>,
    /// One thread at a time looks for a connection, and takes it.
    pub accepting: Spin<()>,
}

static TABLE: [AtomicPtr<Entry>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// Of a descriptor; `None`: its number is too large, or negative.
pub(crate) fn entry(fd: c_int) -> Option<&'static Entry> {
    let index = usize::try_from(fd).ok()?;
    let place = TABLE.get(index / CHUNK)?;
    let mut chunk = place.load(Ordering::Acquire);
    if chunk.is_null() {
        chunk = make(place);
    }
    // SAFETY: a chunk stays, and has that many entries.
    Some(unsafe { &*chunk.add(index % CHUNK) })
}

/// Of a descriptor of which something may be known.
fn find(fd: c_int) -> Option<&'static Entry> {
    let index = usize::try_from(fd).ok()?;
    let chunk = TABLE.get(index / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: as above.
    (!chunk.is_null()).then(|| unsafe { &*chunk.add(index % CHUNK) })
}

#[cold]
fn make(place: &AtomicPtr<Entry>) -> *mut Entry {
    let layout = Layout::array::<Entry>(CHUNK).expect("it is small");
    // SAFETY: not of size zero; each entry is written before it is published.
    let made = unsafe {
        let made = std::alloc::alloc(layout).cast::<Entry>();
        if made.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        for index in 0..CHUNK {
            made.add(index).write(Entry {
                known: AtomicU8::new(0),
                source: Spin::new(None),
                accepting: Spin::new(()),
            });
        }
        made
    };
    match place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: made above, and never published; nothing in it needs to be dropped.
            unsafe { std::alloc::dealloc(made.cast(), layout) };
            other
        }
    }
}

/// The file of that number, and its kind.
fn identify(fd: c_int) -> Option<(Identity, Class)> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: our own place.
    let answer =
        unsafe { kernel(libc::SYS_fstat, [fd.into(), status.as_mut_ptr() as c_long, 0, 0, 0, 0]) };
    if answer != 0 {
        return None;
    }
    // SAFETY: filled in.
    let status = unsafe { status.assume_init() };
    let class = match status.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Class::Socket,
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => Class::File,
        _ => Class::Other,
    };
    Some(((status.st_dev, status.st_ino), class))
}

impl Entry {
    /// What it is of; `None`: it is in non-blocking mode, or nothing that a thread would wait for.
    #[inline]
    pub(crate) fn may_wait(&self, fd: c_int) -> Option<Class> {
        let known = self.known.load(Ordering::Relaxed);
        if known & NONBLOCKING != 0 {
            return None;
        }
        match CLASSES[usize::from(known & CLASS)] {
            Class::Unknown => self.classify(fd),
            Class::File => None,
            class => Some(class),
        }
    }

    #[cold]
    fn classify(&self, fd: c_int) -> Option<Class> {
        let (_, class) = identify(fd)?;
        self.known.fetch_or(class as u8, Ordering::Relaxed);
        (class != Class::File).then_some(class)
    }

    /// It was something else: asks anew.
    pub(crate) fn reclassify(&self, fd: c_int) -> Option<Class> {
        self.known.store(0, Ordering::Relaxed);
        self.may_wait(fd)
    }

    pub(crate) fn has_nowait(&self) -> bool {
        self.known.load(Ordering::Relaxed) & NO_NOWAIT == 0
    }

    pub(crate) fn note_no_nowait(&self) {
        self.known.fetch_or(NO_NOWAIT, Ordering::Relaxed);
    }

    pub(crate) fn note_timeout(&self) {
        self.known.fetch_or(HAS_TIMEOUT, Ordering::Relaxed);
    }

    pub(crate) fn has_timeout(&self) -> bool {
        self.known.load(Ordering::Relaxed) & HAS_TIMEOUT != 0
    }

    /// It is a new connection.
    pub(crate) fn note_connection(&self, nonblocking: bool, has_timeout: bool) {
        let mode = if nonblocking { NONBLOCKING } else { 0 };
        let timeout = if has_timeout { HAS_TIMEOUT } else { 0 };
        self.known.store(Class::Socket as u8 | mode | timeout, Ordering::Relaxed);
    }

    /// The program changes its mode.
    pub(crate) fn note_mode(&self, nonblocking: bool) {
        match nonblocking {
            true => self.known.fetch_or(NONBLOCKING, Ordering::Relaxed),
            false => self.known.fetch_and(!NONBLOCKING, Ordering::Relaxed),
        };
    }

    /// Whether the program has it in non-blocking mode, by the kernel's word.
    fn is_nonblocking(&self, fd: c_int) -> bool {
        // SAFETY: asks for a number.
        let flags =
            unsafe { kernel(libc::SYS_fcntl, [fd.into(), libc::F_GETFL.into(), 0, 0, 0, 0]) };
        let nonblocking = flags >= 0 && flags & c_long::from(libc::O_NONBLOCK) != 0;
        if nonblocking {
            self.note_mode(true);
        }
        nonblocking
    }

    /// What is known of it, without a look whether it is so.
    fn known_source(&self) -> Option<Source> {
        self.source.with(|known| known.as_ref().map(|(_, source)| source.clone()))
    }

    /// Where threads wait for it; `None`: there is no such descriptor. `is_epoll`: an epoll, as the kernel
    /// has just said. These are all of one file, so there is nothing more to ask.
    fn source(&self, fd: c_int, is_epoll: bool) -> Option<Source> {
        if is_epoll && self.known.load(Ordering::Relaxed) & EPOLL != 0 {
            let known = self.known_source();
            if known.is_some() {
                return known;
            }
        }
        let (identity, _) = identify(fd)?;
        let known = self.source.with(|known| {
            known.as_ref().filter(|known| known.0 == identity).map(|(_, source)| source.clone())
        });
        if known.is_some() {
            return known;
        }
        let made = Source::borrowed(fd);
        let kind = if is_epoll { HAS_SOURCE | EPOLL } else { HAS_SOURCE };
        self.known.fetch_or(kind, Ordering::Relaxed);
        let old = self.source.with(|known| known.replace((identity, made.clone())));
        if let Some((_, old)) = old {
            old.let_go();
        }
        Some(made)
    }
}

/// Nothing is known of that number any more: it is about to be closed, or was just now.
pub(crate) fn forget(fd: c_int) {
    let Some(entry) = find(fd) else { return };
    if entry.known.load(Ordering::Relaxed) == 0 {
        return;
    }
    entry.known.store(0, Ordering::Relaxed);
    if let Some((_, source)) = entry.source.with(Option::take) {
        source.let_go();
    }
}

/// Of all numbers in that range.
pub(crate) fn forget_from(first: u32, last: u32) {
    let most = (CHUNK * CHUNKS) as u32 - 1;
    let mut fd = first;
    while fd <= last.min(most) {
        if TABLE[fd as usize / CHUNK].load(Ordering::Acquire).is_null() {
            fd = (fd / CHUNK as u32 + 1) * CHUNK as u32;
            continue;
        }
        forget(fd as c_int);
        fd += 1;
    }
}

/// Why a wait gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its time is over.
    Time,
    /// The program has the descriptor in non-blocking mode.
    Nonblocking,
    /// A signal's handler has run.
    Interrupted,
    /// Threads can't wait for it: the kthread is to.
    InKernel,
}

/// How long to wait, and whether the descriptor's mode counts.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub side: Side,
    /// It does not: `epoll_wait` and `poll` wait in any mode.
    pub any_mode: bool,
    /// A try that gives nothing says that it is an epoll.
    pub is_epoll: bool,
}

/// One wait, which signals end.
pub(crate) fn wait(
    source: &Source,
    side: Side,
    ticks: u32,
    until: Option<Deadline>,
) -> std::io::Result<()> {
    let own = registry::own();
    let _waiting = own.map(|own| Waiting::begin(own, Some(source)));
    if own.is_some_and(|own| own.interrupted.load(Ordering::SeqCst) != 0) {
        return Ok(());
    }
    source.wait(side, ticks, until)
}

/// Tries until there is an answer, and has the calling thread wait for the descriptor in between. `until`
/// is asked when it begins to wait.
pub(crate) fn insist<T>(
    fd: c_int,
    patience: Patience,
    until: impl FnOnce() -> Option<Deadline>,
    mut attempt: impl FnMut() -> Option<T>,
) -> Result<T, Ended> {
    let Patience { side, any_mode, is_epoll } = patience;
    let entry = entry(fd);
    // Ticks from before the try: no event falls between it and the wait.
    let mut before = entry.and_then(Entry::known_source).map(|it| (it.ticks(side), it));
    if let Some(answer) = attempt() {
        return Ok(answer);
    }
    let entry = entry.ok_or(Ended::InKernel)?;
    if !any_mode && entry.is_nonblocking(fd) {
        return Err(Ended::Nonblocking);
    }
    let until = until();
    loop {
        let Some(source) = entry.source(fd, is_epoll) else {
            // It was closed meanwhile, as the next try says.
            return attempt().ok_or(Ended::InKernel);
        };
        let ticks = match before.take().filter(|(_, known)| known.is(&source)) {
            Some((ticks, _)) => ticks,
            None => {
                let ticks = source.ticks(side);
                if let Some(answer) = attempt() {
                    return Ok(answer);
                }
                ticks
            }
        };
        let waited = wait(&source, side, ticks, until);
        if registry::own().is_some_and(handlers::take_interruption) {
            return attempt().ok_or(Ended::Interrupted);
        }
        if let Err(error) = waited {
            match error.kind() {
                ErrorKind::WouldBlock => return attempt().ok_or(Ended::Time),
                // It was closed.
                ErrorKind::ConnectionAborted => {}
                _ => return Err(Ended::InKernel),
            }
        }
        before = Some((source.ticks(side), source));
        if let Some(answer) = attempt() {
            return Ok(answer);
        }
    }
}
