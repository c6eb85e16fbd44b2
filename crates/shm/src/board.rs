//! The board: what the daemon tells all programs.
//!
//! ```text
//!    0  header (128 bytes)
//!  128  a line of 64 bytes for each core it manages
//!       a line of 64 bytes for each slot; a slot is one kthread of one program
//! ```

use crate::heading::{Heading, Kind};
use crate::memory::{MapError, Memory};
use crate::slot::{CoreIndex, Slot, SlotLine};
use crate::word::Word;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::thread::futex;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const KIND: Kind = Kind {
    name: "board",
    magic: u64::from_le_bytes(*b"CURTBORD"),
    version: 2,
    header_bytes: size_of::<Header>() as u32,
    line_bytes: 64,
};
const MOST_CORES: u32 = 1024;
const MOST_SLOTS: u32 = 1 << 16;

/// Which kthread is to have a core: the batch thread that runs there wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Counts the orders of this core; wraps.
    pub generation: u32,
    /// Whom to wake.
    pub heir: Slot,
}

#[repr(C, align(128))]
struct Header {
    /// With the number of cores.
    heading: Heading,
    slots: AtomicU32,
    pid: AtomicU32,
    interval_ns: AtomicU64,
    heartbeat_ns: AtomicU64,
}

#[repr(C, align(64))]
struct CoreLine {
    /// `generation << 32 | heir + 1`; 0: there was none yet.
    order: AtomicU64,
    /// The kernel's number of the core.
    cpu: AtomicU32,
    /// The slot of the kthread that has the core, plus one; 0: it is free.
    holder: AtomicU32,
}

const _: () = {
    assert!(size_of::<Header>() == 128 && size_of::<CoreLine>() == 64);
    assert!(std::mem::offset_of!(CoreLine, order) == 0);
};

const fn bytes_for(cores: u32, slots: u32) -> usize {
    size_of::<Header>() + (cores as usize + slots as usize) * 64
}

/// Where things are, from a header that was checked.
struct Lines {
    memory: Memory,
    cores: u32,
    slots: u32,
}

impl Lines {
    fn header(&self) -> &Header {
        // SAFETY: atomics.
        unsafe { self.memory.at(0) }
    }

    /// `None`: there is no such core.
    fn core(&self, CoreIndex(core): CoreIndex) -> Option<&CoreLine> {
        // SAFETY: atomics.
        (core < self.cores).then(|| unsafe { self.memory.at(128 + core as usize * 64) })
    }

    /// `None`: there is no such slot.
    fn slot(&self, Slot(slot): Slot) -> Option<&SlotLine> {
        let line = self.cores as usize + slot as usize;
        // SAFETY: atomics.
        (slot < self.slots).then(|| unsafe { self.memory.at(128 + line * 64) })
    }

    fn wake(&self, slot: Slot) -> bool {
        let Some(line) = self.slot(slot) else { return false };
        futex::wake(&line.word, futex::Flags::empty(), 1).is_ok_and(|woken| woken > 0)
    }
}

/// The daemon's side: it alone writes.
pub struct Board(Lines);

impl Board {
    /// What code that is no Rust knows of the layout: the version, the bytes of header and line, where
    /// in the header version, both sizes and both counts are, and where in a core's line the core's
    /// number and its holder are. Orders and words begin their lines, and the slots' lines follow the
    /// cores'.
    pub const LAYOUT: [u32; 10] = [
        KIND.version,
        size_of::<Header>() as u32,
        size_of::<CoreLine>() as u32,
        std::mem::offset_of!(Header, heading.version) as u32,
        std::mem::offset_of!(Header, heading.header_bytes) as u32,
        std::mem::offset_of!(Header, heading.line_bytes) as u32,
        std::mem::offset_of!(Header, heading.count) as u32,
        std::mem::offset_of!(Header, slots) as u32,
        std::mem::offset_of!(CoreLine, cpu) as u32,
        std::mem::offset_of!(CoreLine, holder) as u32,
    ];

    /// A new board for these cores (the kernel's numbers) and so many kthreads in all.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// With no core or more than 1,024, or more than 65,536 slots.
    pub fn create(cpus: &[u32], slots: u32, interval: Duration) -> io::Result<Self> {
        let cores = u32::try_from(cpus.len()).expect("few cores");
        assert!((1..=MOST_CORES).contains(&cores) && (1..=MOST_SLOTS).contains(&slots));
        let memory = Memory::create("curtail-board", bytes_for(cores, slots))?;
        let board = Self(Lines { memory, cores, slots });
        let header = board.0.header();
        header.slots.store(slots, Ordering::Relaxed);
        header.pid.store(std::process::id(), Ordering::Relaxed);
        header.interval_ns.store(interval.as_nanos() as u64, Ordering::Relaxed);
        for (index, &cpu) in (0..).zip(cpus) {
            let line = board.0.core(CoreIndex(index)).expect("one of ours");
            line.cpu.store(cpu, Ordering::Relaxed);
        }
        header.heading.write(&KIND, cores);
        Ok(board)
    }

    /// To be passed to programs.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.memory.fd()
    }

    /// The daemon lives, and looked around at this time.
    pub fn beat(&self, now_ns: u64) {
        self.0.header().heartbeat_ns.store(now_ns, Ordering::Release);
    }

    fn slot(&self, slot: Slot) -> &SlotLine {
        self.0.slot(slot).expect("a slot of this board")
    }

    /// The kthread's present word.
    ///
    /// # Panics
    /// As all methods: where the board has no such slot or core.
    #[must_use]
    pub fn word(&self, slot: Slot) -> Word {
        self.slot(slot).written()
    }

    /// The kthread has that core from now on. It sleeps until it is woken: by the thread that is on
    /// the core ([`Board::order`], [`Board::evict`]), or by [`Board::wake`].
    pub fn grant(&self, slot: Slot, core: CoreIndex) -> Word {
        self.slot(slot).grant(core)
    }

    /// The kthread is to park before `grace_ns` and then to wake `heir`.
    pub fn evict(&self, slot: Slot, heir: Option<Slot>, grace_ns: u64) -> Word {
        self.slot(slot).evict(heir, grace_ns)
    }

    /// The kthread has no core: what a slot says before it gets to be another program's.
    pub fn park(&self, slot: Slot) -> Word {
        self.slot(slot).park()
    }

    /// The batch thread on that core is to wake `heir` at its next safepoint. One store: no system
    /// call.
    pub fn order(&self, core: CoreIndex, heir: Slot) -> Order {
        let line = self.0.core(core).expect("a core of this board");
        let generation = ((line.order.load(Ordering::Relaxed) >> 32) as u32).wrapping_add(1);
        let order = u64::from(generation) << 32 | u64::from(heir.0 + 1);
        line.order.store(order, Ordering::Release);
        Order { generation, heir }
    }

    /// Says which kthread has that core, if one has it: a batch thread that runs there all the same
    /// was given the core by the kernel, at a tick, and is to leave it.
    pub fn hold(&self, core: CoreIndex, holder: Option<Slot>) {
        let line = self.0.core(core).expect("a core of this board");
        line.holder.store(holder.map_or(0, |slot| slot.0 + 1), Ordering::Release);
    }

    /// Wakes a kthread by a system call; false: it did not sleep.
    pub fn wake(&self, slot: Slot) -> bool {
        self.0.wake(slot)
    }
}

/// A program's side: it can't write.
pub struct BoardView(Lines);

impl BoardView {
    /// The board that a daemon passed.
    ///
    /// # Errors
    /// Where it is none, or not one of this version.
    pub fn map(fd: OwnedFd) -> Result<Self, MapError> {
        let most = bytes_for(MOST_CORES, MOST_SLOTS) + rustix::param::page_size();
        let memory = Memory::view(fd, size_of::<Header>(), most)?;
        let lines = Lines { memory, cores: 0, slots: 0 };
        let header = lines.header();
        let cores = header.heading.check(&KIND)?;
        let slots = header.slots.load(Ordering::Relaxed);
        if !(1..=MOST_CORES).contains(&cores) || !(1..=MOST_SLOTS).contains(&slots) {
            return Err(MapError::Header("how many cores and slots it has"));
        }
        if bytes_for(cores, slots) > lines.memory.bytes() {
            return Err(MapError::Header("it is larger than the memory"));
        }
        Ok(Self(Lines { cores, slots, ..lines }))
    }

    /// How many cores the daemon manages.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.0.cores
    }

    /// How many kthreads there can be in all.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.0.slots
    }

    /// When the daemon looked around last. It does so each interval while it serves a program with
    /// work, each millisecond while all are idle, and not at all while it has none to serve: the end
    /// of the session tells of its end.
    #[must_use]
    pub fn heartbeat_ns(&self) -> u64 {
        self.0.header().heartbeat_ns.load(Ordering::Acquire)
    }

    /// How often it looks.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        self.0.header().interval_ns.load(Ordering::Relaxed)
    }

    /// What the kthread is asked. A slot that does not exist is asked to park.
    #[inline]
    #[must_use]
    pub fn word(&self, slot: Slot) -> Word {
        self.0.slot(slot).map_or(Word::FIRST, SlotLine::word)
    }

    /// The core that the kthread was granted last.
    #[must_use]
    pub fn core(&self, slot: Slot) -> Option<CoreIndex> {
        self.0.slot(slot)?.core().filter(|core| core.0 < self.0.cores)
    }

    /// Whom to wake after an eviction.
    #[must_use]
    pub fn heir(&self, slot: Slot) -> Option<Slot> {
        self.0.slot(slot)?.heir()
    }

    /// Until when an eviction is to be carried out.
    #[must_use]
    pub fn grace_ns(&self, slot: Slot) -> u64 {
        self.0.slot(slot).map_or(0, SlotLine::grace_ns)
    }

    /// The kernel's number of a core.
    #[must_use]
    pub fn cpu(&self, core: CoreIndex) -> Option<u32> {
        Some(self.0.core(core)?.cpu.load(Ordering::Relaxed))
    }

    /// The last order of a core; `None`: there was none yet.
    #[inline]
    #[must_use]
    pub fn order(&self, core: CoreIndex) -> Option<Order> {
        let order = self.0.core(core)?.order.load(Ordering::Acquire);
        let heir = Slot((order as u32).checked_sub(1)?);
        Some(Order { generation: (order >> 32) as u32, heir })
    }

    /// The kthread that has a core; `None`: the core is free.
    #[inline]
    #[must_use]
    pub fn holder(&self, core: CoreIndex) -> Option<Slot> {
        Some(Slot(self.0.core(core)?.holder.load(Ordering::Acquire).checked_sub(1)?))
    }

    /// Where a kthread's word lies, for code that looks at it often: a [`Word`]. Valid as long as the
    /// view lives.
    #[must_use]
    pub fn word_address(&self, slot: Slot) -> Option<*const AtomicU32> {
        Some(&raw const self.0.slot(slot)?.word)
    }

    /// Wakes a kthread, of whichever program; false: it did not sleep. A system call.
    pub fn wake(&self, slot: Slot) -> bool {
        self.0.wake(slot)
    }

    /// Sleeps as long as the kthread's word is `word`, for `most` at most; may end early. A system
    /// call.
    pub fn sleep(&self, slot: Slot, word: Word, most: Option<Duration>) {
        let Some(line) = self.0.slot(slot) else { return };
        let most = most.map(|most| rustix::time::Timespec {
            tv_sec: most.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: most.subsec_nanos().into(),
        });
        // Whatever ends the sleep, the caller looks at the word again.
        let _ = futex::wait(&line.word, futex::Flags::empty(), word.0, most.as_ref());
    }
}
