//! Threads come and go: spawning, and what they leave behind. (`join`: waiting for that.)
//!
//! **A thread's memory** is its stack. At the top lies its [`Block`], below that the packet (the
//! closure; later the result), below that the frames. Packets too large for that lie on the heap.
//!
//! **Its end.** The thread leaves its result in the packet and switches away; what runs next on its
//! kthread publishes the end ([`publish_end`]), since only then the stack is free. The caller that
//! joins it, or else drops its handle, takes the result and gives the stack back; a thread whose
//! handle has gone gives everything back by itself.

mod known;

use super::join::JoinHandle;
use super::kthread::KThread;
use super::task;
use super::tcb::{Block, Calls, DETACHED, DONE, LEAVING, RUNNING, Tcb};
use crate::block::{self, Queue};
use curtail_fiber::{ContextKind, Label, Locals, end_thread_locals};
use std::alloc::Layout;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A packet larger than this lies on the heap.
const MOST_ON_STACK: usize = 2_048;
const BLOCK_ALIGN: usize = 64;

/// How to make a thread: its name, stack and class.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: Option<Arc<str>>,
    stack_size: Option<usize>,
    class: u16,
    batch: bool,
    light: bool,
}

impl Builder {
    /// A thread without a name, with the runtime's stack size, of class 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into());
        self
    }

    /// Bytes of its stack, from 16 KiB to 1 GiB, rounded up to whole pages. Memory that is never
    /// touched costs address space only.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Its class: the runtime may give each class a quantum of its own
    /// ([`RuntimeBuilder::class_quantum`](crate::RuntimeBuilder::class_quantum)).
    #[must_use]
    pub fn class(mut self, class: u16) -> Self {
        self.class = class;
        self
    }

    /// A batch thread: it runs where nothing else of the runtime is ready, on any kthread, and in a
    /// program with safepoints it is cut about a microsecond after something else has become so
    /// (Shenango §1: batch work has every cycle that is left). What it spawns is batch, too. It asks
    /// a core allocator for no core. In a server whose policy has a dispatcher it is a thread
    /// like any other.
    ///
    /// Threads that wait for it, or for a lock that it holds, wait until there is room for it.
    #[must_use]
    pub fn batch(mut self) -> Self {
        self.batch = true;
        self
    }

    /// A light thread: it shares its kthread's thread-local variables with all other light threads
    /// there, as Shenango's threads do, and so it is not pre-empted and never moves once it has
    /// started. It needs some 5 KiB less memory than others. For a million small threads, and only
    /// where no library that they call keeps something in a thread-local over a wait.
    #[must_use]
    pub fn light(mut self) -> Self {
        self.light = true;
        self
    }

    /// Starts a thread that runs `f`.
    ///
    /// # Errors
    /// There is no memory for its stack, or its size is out of range.
    ///
    /// # Panics
    /// Outside of a runtime: see [`spawn`].
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: closure and result live as long as the thread may.
        unsafe { self.spawn_unchecked(f) }
    }

    /// # Safety
    /// What `f` and its result refer to outlives the thread and its handle.
    pub(super) unsafe fn spawn_unchecked<F: FnOnce() -> T, T>(
        self,
        f: F,
    ) -> io::Result<JoinHandle<T>> {
        let batch = self.batch;
        let handle = self.prepare(f)?;
        launch(handle.block(), batch);
        Ok(handle)
    }

    /// Starts a thread on this kthread; `moves`: it may go on elsewhere.
    #[doc(hidden)]
    pub fn start_here<F, T>(self, f: F, moves: bool) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let handle = self.prepare(f)?;
        KThread::here().launch_here(handle.block(), moves);
        Ok(handle)
    }

    /// A thread that is not launched yet.
    fn prepare<F: FnOnce() -> T, T>(self, f: F) -> io::Result<JoinHandle<T>> {
        let block = create(&self, Packet::<F, T>::LAYOUT, &Packet::<F, T>::CALLS)?;
        Ok(Packet::<F, T>::fill(block, f))
    }
}

/// Starts a thread that runs `f` (Shenango §4: a thread costs tens of nanoseconds). It goes to the
/// end of this kthread's queue; another kthread may take it whenever it is ready (§5).
///
/// # Panics
/// Outside of a runtime ([`crate::run`], or a handler of a [`Server`](../curtail/struct.Server.html)), and where there is no
/// memory for its stack ([`Builder::spawn`] returns an error instead).
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match create_warm(Packet::<F, T>::LAYOUT, &Packet::<F, T>::CALLS) {
        Some(block) => {
            let handle = Packet::<F, T>::fill(block, f);
            launch(handle.block(), false);
            handle
        }
        None => Builder::new().spawn(f).expect("no thread could be spawned"),
    }
}

/// A thread that was filled in is to run.
fn launch(block: &Block, batch: bool) {
    if let Some(case) = crate::context::inherited() {
        block.tcb.case.set(case);
    }
    KThread::here().launch(block, batch);
}

/// Closure and result share a place.
struct Packet<F, T>(PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> Packet<F, T> {
    const LAYOUT: Layout = {
        let (f, t) = (Layout::new::<F>(), Layout::new::<std::thread::Result<T>>());
        let size = if f.size() > t.size() { f.size() } else { t.size() };
        let align = if f.align() > t.align() { f.align() } else { t.align() };
        match Layout::from_size_align(size, align) {
            Ok(layout) => layout,
            Err(_) => panic!("no memory is that large"),
        }
    };
    const CALLS: Calls = Calls { run: run_packet::<F, T>, discard: discard_packet::<T> };
}

impl<F: FnOnce() -> T, T> Packet<F, T> {
    /// Puts the closure into a thread that was created by the layout and the calls above.
    fn fill(block: NonNull<Block>, f: F) -> JoinHandle<T> {
        // SAFETY: the packet is ours, of that layout, until the thread is launched.
        unsafe { block.as_ref().packet.get().cast::<F>().write(f) };
        JoinHandle::of(block)
    }
}

/// Runs the closure and puts the result, or the panic, in its place.
///
/// # Safety
/// `packet` holds an `F`, and has room for a result.
unsafe fn run_packet<F: FnOnce() -> T, T>(packet: *mut ()) {
    // SAFETY: by contract.
    let f = unsafe { packet.cast::<F>().read() };
    let result = catch_unwind(AssertUnwindSafe(|| crate::user::call(f)));
    // SAFETY: by contract.
    unsafe { packet.cast::<std::thread::Result<T>>().write(result) };
}

/// Drops the result.
///
/// # Safety
/// `packet` holds one of this type.
unsafe fn discard_packet<T>(packet: *mut ()) {
    // SAFETY: by contract.
    unsafe { ptr::drop_in_place(packet.cast::<std::thread::Result<T>>()) };
}

/// A thread that is not launched yet, with room for a packet.
fn create(builder: &Builder, layout: Layout, calls: &'static Calls) -> io::Result<NonNull<Block>> {
    let here = KThread::try_here().unwrap_or_else(|| panic!("{NO_RUNTIME}"));
    let stack = here
        .take_stack(builder.stack_size, builder.light.then_some(Locals::Shared))
        .map_err(io::Error::other)?;
    let heap = (layout.size() > MOST_ON_STACK || layout.align() > BLOCK_ALIGN).then_some(layout);
    let place = (stack.top() - size_of::<Block>()) & !(BLOCK_ALIGN - 1);
    let in_place = (place - layout.size()) & !(layout.align() - 1);
    let (packet, top) = match heap {
        Some(layout) => (heap_packet(layout), place),
        None => (ptr::with_exposed_provenance_mut(in_place), in_place & !15),
    };
    let block: *mut Block = ptr::with_exposed_provenance_mut(place);
    // SAFETY: the stack is ours; block, packet and frames share it, in this order, without overlap.
    // Field by field: a whole block would be made elsewhere and copied in pieces, whose loads wait
    // for the stores before them.
    unsafe {
        Tcb::make_at(&raw mut (*block).tcb, builder.class);
        (&raw mut (*block).stack).write(ManuallyDrop::new(stack));
        (&raw mut (*block).calls).write(Cell::new(calls));
        (&raw mut (*block).packet).write(Cell::new(packet));
        (&raw mut (*block).heap).write(Cell::new(heap));
        (&raw mut (*block).name).write(builder.name.clone());
        let named = builder.name.as_ref().map(|name| [name.as_ptr().addr(), name.len()]);
        (&raw mut (*block).named).write(named.unwrap_or_default());
        (&raw mut (*block).progress).write(AtomicU32::new(RUNNING));
        (&raw mut (*block).joiners).write(Queue::new());
        let context = &(*block).tcb.context;
        context.prepare(&(*block).stack, top, main, block.cast(), ContextKind::Thread);
        context.set_label(Label { class: builder.class, ..Label::default() });
    }
    Ok(NonNull::new(block).expect("on a stack"))
}

/// Makes a thread on a block that another has left, with the usual stack, without a name, of class
/// 0; `None`: there is none.
fn create_warm(layout: Layout, calls: &'static Calls) -> Option<NonNull<Block>> {
    if layout.size() > MOST_ON_STACK || layout.align() > BLOCK_ALIGN {
        return None;
    }
    let block = KThread::try_here()?.take_warm()?;
    // SAFETY: its thread has ended, and its thread-locals before that: see `main`.
    unsafe { block.stack.renew_locals() };
    let place = ptr::from_ref(block).addr();
    let packet = (place - layout.size()) & !(layout.align() - 1);
    block.calls.set(calls);
    block.packet.set(ptr::with_exposed_provenance_mut(packet));
    let argument = ptr::from_ref(block).cast_mut().cast();
    // SAFETY: the stack is ours, as in `create`; its thread has ended.
    unsafe { block.tcb.context.prepare_again(packet & !15, main, argument) };
    Some(NonNull::from(block))
}

const NO_RUNTIME: &str = "no runtime here: call this inside of curtail::run, or in a handler of a \
                          curtail::Server";

fn heap_packet(layout: Layout) -> *mut () {
    let memory = match layout.size() {
        0 => ptr::without_provenance_mut(layout.align()),
        // SAFETY: not of size zero.
        _ => unsafe { std::alloc::alloc(layout) },
    };
    if memory.is_null() {
        std::alloc::handle_alloc_error(layout);
    }
    memory.cast()
}

/// The first function on each thread's stack.
unsafe extern "C" fn main(block: *mut ()) -> ! {
    // SAFETY: `create` passed it; it lives until the end is published.
    let block = unsafe { &*block.cast::<Block>() };
    block.tcb.context.set_in_task(true);
    // SAFETY: the packet holds the closure.
    unsafe { (block.calls.get().run)(block.packet.get()) };
    if block.tcb.context.has_own_locals() {
        end_thread_locals();
    }
    if block.tcb.joiner.get().is_null() && leave_result(block) == DETACHED {
        // SAFETY: the packet holds the result, and its handle has gone, so no caller asks for it.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe {
            (block.calls.get().discard)(block.packet.get());
        }));
        free_packet(block);
    }
    block.tcb.context.set_in_task(false);
    KThread::here().end(block)
}

/// The result is in the packet: from now on it is for the caller that joins, unless the handle has
/// gone.
fn leave_result(block: &Block) -> u32 {
    let mut was = DETACHED;
    block::with_queue(&block.joiners, |_| {
        was = block.progress.load(Ordering::Relaxed);
        if was != DETACHED {
            block.progress.store(LEAVING, Ordering::Relaxed);
        }
        None
    });
    was
}

/// A thread has left its stack for ever.
pub(super) fn publish_end(ended: *const Tcb) {
    // SAFETY: it is not freed before that.
    if let Some(task) = unsafe { (*ended).task() } {
        return task::publish_end(task);
    }
    let ended: *const Block = ended.cast();
    // SAFETY: it is freed under the lock, by the joiner that is woken below, or here.
    let block = unsafe { &*ended };
    let joiner = block.tcb.joiner.get();
    if !joiner.is_null() {
        // SAFETY: it waits for this, on another kthread, and for nothing else: nothing wakes it but this.
        return unsafe { KThread::make_ready(joiner) };
    }
    let mut detached = false;
    block::with_queue(&block.joiners, |locked| {
        detached = block.progress.load(Ordering::Relaxed) == DETACHED;
        block.progress.store(DONE, Ordering::Release);
        locked.pop()
    });
    if detached {
        // SAFETY: its handle has gone, so nothing refers to it any more; it has emptied its packet.
        unsafe { free(ended) };
    }
}

pub(super) fn free_packet(block: &Block) {
    if let Some(layout) = block.heap.take()
        && layout.size() > 0
    {
        // SAFETY: `heap_packet` allocated it by this layout, and it is empty.
        unsafe { std::alloc::dealloc(block.packet.get().cast(), layout) };
    }
}

/// Gives a thread's memory back.
///
/// # Safety
/// Its end was published, or nothing was ever run on it; the packet is empty; nothing else refers
/// to it.
pub(super) unsafe fn free(block: *const Block) {
    let here = KThread::try_here();
    // SAFETY: by contract.
    unsafe {
        (*block).tcb.renew();
        if (*block).is_plain() {
            (*block).progress.store(RUNNING, Ordering::Relaxed);
            if here.is_some_and(|here| here.keep_warm(&*block)) {
                return;
            }
        }
        free_cold(block, here);
    }
}

/// [`free`], and nothing is kept.
///
/// # Safety
/// As for [`free`].
pub(super) unsafe fn free_cold(block: *const Block, here: Option<&KThread>) {
    // SAFETY: by contract.
    unsafe {
        let block = block.cast_mut();
        let stack = ManuallyDrop::take(&mut (*block).stack);
        ptr::drop_in_place(&raw mut (*block).tcb);
        ptr::drop_in_place(&raw mut (*block).name);
        match here {
            Some(here) => here.give_stack(stack),
            None => drop(stack),
        }
    }
}
