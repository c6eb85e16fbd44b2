//! A port of DPDK's and its queues, by `native/dpdk.c`.
//!
//! The dispatcher's thread owns a [`Dpdk`] for each queue and receives; whoever sends takes the
//! queue's lock, since of a queue's senders there may be one at a time. Frames for either way come from
//! pools of their own, which any thread may use. Invariants: a frame is free, lent for a call or the
//! device's; the port ends with the last half of a queue.

use super::{DpdkConfig, eal};
use crate::error::DpdkError;
use crate::packet::{FrameCount, FrameSender, Hardware, PacketDriver};
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::{NonNull, null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// Frames taken at a time; as many as the C half takes.
const BATCH: usize = 64;

/// The port as the C half knows it, and a frame's header.
#[repr(C)]
struct RawPort([u8; 0]);
#[repr(C)]
struct Buffer([u8; 0]);

#[repr(C)]
struct Settings {
    device: *const c_char,
    arguments: *const c_char,
    queues: u16,
    frames: u16,
    mtu: u16,
}

#[repr(C)]
#[derive(Default)]
struct Facts {
    hardware: Hardware,
    receive_ring: u16,
    send_ring: u16,
    most_queues: u16,
    least_mtu: u16,
    most_mtu: u16,
    spreads: u16,
}

/// A frame: where its bytes are, how many it has or has room for, and its header.
#[repr(C)]
#[derive(Clone, Copy)]
struct Frame {
    data: *mut u8,
    bytes: u32,
    buffer: *mut Buffer,
}

impl Frame {
    const NONE: Self = Self { data: null_mut(), bytes: 0, buffer: null_mut() };
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    missed: u64,
    errors: u64,
    no_frame: u64,
    unsent: u64,
}

unsafe extern "C" {
    fn curtail_dpdk_version() -> *const c_char;
    fn curtail_dpdk_reason(error: c_int) -> *const c_char;
    fn curtail_dpdk_start(count: c_int, words: *mut *mut c_char) -> c_int;
    fn curtail_dpdk_open(
        wanted: *const Settings,
        facts: *mut Facts,
        opened: *mut *mut RawPort,
        step: *mut *const c_char,
    ) -> c_int;
    fn curtail_dpdk_close(port: *mut RawPort);
    fn curtail_dpdk_receive(port: *mut RawPort, queue: u16, frames: *mut Frame, most: u16) -> u16;
    fn curtail_dpdk_give_back(buffer: *mut Buffer);
    fn curtail_dpdk_lend(port: *mut RawPort, queue: u16, frame: *mut Frame) -> bool;
    fn curtail_dpdk_send(port: *mut RawPort, queue: u16, buffer: *mut Buffer, bytes: u32) -> bool;
    fn curtail_dpdk_frames(port: *mut RawPort, queue: u16, all: *mut u32, available: *mut u32);
    fn curtail_dpdk_counts(port: *mut RawPort, counts: *mut Counts);
}

/// DPDK takes and gives back devices for one thread at a time.
static DEVICES: Mutex<()> = Mutex::new(());

pub(super) fn version() -> String {
    // SAFETY: it answers with a string that stays.
    unsafe { text(curtail_dpdk_version()) }
}

/// What an error number means.
pub(super) fn reason(error: c_int) -> String {
    // SAFETY: it answers with a string that stays until this thread asks again.
    unsafe { text(curtail_dpdk_reason(error)) }
}

/// # Safety
/// Null, or a string that ends with a zero.
unsafe fn text(at: *const c_char) -> String {
    // SAFETY: as the caller says.
    let found = NonNull::new(at.cast_mut()).map(|at| unsafe { CStr::from_ptr(at.as_ptr()) });
    found.unwrap_or_default().to_string_lossy().into_owned()
}

/// Starts DPDK; 0, or an error number. At most once.
pub(super) fn start(words: Vec<CString>) -> c_int {
    let count = words.len() as c_int;
    let mut words: Vec<_> = words.into_iter().map(CString::into_raw).chain([null_mut()]).collect();
    // DPDK keeps pointers to its words, and changes their order: they stay for good.
    let words = std::mem::take(&mut words).leak();
    // SAFETY: as many words as is said and a null pointer, all of them valid for good.
    unsafe { curtail_dpdk_start(count, words.as_mut_ptr()) }
}

/// Opens a device: its queues, its Ethernet address, and whether it spreads flows over the queues.
/// `reserved` is kept as long as they live.
pub(super) fn open(
    device: &str,
    config: &DpdkConfig,
    reserved: Vec<OwnedFd>,
) -> Result<(Vec<Dpdk>, Hardware, bool), DpdkError> {
    if device.is_empty() || device.contains(',') {
        return Err(DpdkError::Name);
    }
    let all = match config.arguments.is_empty() {
        true => device.to_owned(),
        false => format!("{device},{}", config.arguments),
    };
    let [name, all] = [device, &all].map(CString::new);
    let (name, all) = (name.map_err(|_| DpdkError::Name)?, all.map_err(|_| DpdkError::Name)?);
    eal::ensure(&config.eal, device)?;
    // Each is within bounds: the caller has seen to it.
    let wanted = Settings {
        device: name.as_ptr(),
        arguments: all.as_ptr(),
        queues: config.queues as u16,
        frames: config.frames.next_power_of_two() as u16,
        mtu: config.mtu as u16,
    };
    let (mut facts, mut raw, mut step) = (Facts::default(), null_mut(), null());
    let _one = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: DPDK has started; all that the pointers lead to outlives the call.
    let error = unsafe {
        curtail_dpdk_open(&raw const wanted, &raw mut facts, &raw mut raw, &raw mut step)
    };
    let raw = match NonNull::new(raw) {
        Some(raw) if error == 0 => raw,
        // SAFETY: null, or a constant of the C half.
        _ => return Err(why(error, &wanted, &facts, unsafe { text(step) })),
    };
    let port = Arc::new(DpdkPort {
        raw,
        with_device: usize::from(facts.receive_ring) + usize::from(facts.send_ring),
        _reserved: reserved,
    });
    let queue = |queue| Dpdk {
        sender: Arc::new(Sender { port: port.clone(), queue, turn: Mutex::new(()) }),
        port: port.clone(),
        queue,
        frames: Box::new([Frame::NONE; BATCH]),
    };
    Ok(((0..wanted.queues).map(queue).collect(), facts.hardware, facts.spreads != 0))
}

fn why(error: c_int, wanted: &Settings, facts: &Facts, what: String) -> DpdkError {
    match -error {
        libc::EBUSY => DpdkError::InUse,
        libc::ERANGE if wanted.queues > facts.most_queues => {
            DpdkError::Queues { wanted: wanted.queues, most: facts.most_queues }
        }
        libc::ERANGE => {
            let (least, most) = (facts.least_mtu, facts.most_mtu);
            DpdkError::Mtu { wanted: wanted.mtu, least, most }
        }
        libc::ENOMEM => DpdkError::Memory,
        _ if what == "find the device" => DpdkError::NoDevice(reason(error)),
        _ => DpdkError::Driver { what, reason: reason(error) },
    }
}

/// What all queues of a port share.
struct DpdkPort {
    raw: NonNull<RawPort>,
    /// Frames that the device may have of each queue.
    with_device: usize,
    _reserved: Vec<OwnedFd>,
}

// SAFETY: the C half leaves it to us which thread calls: each queue receives by its owner, sends under
// its lock, and lends from pools that are for many threads. It keeps nothing of a thread.
unsafe impl Send for DpdkPort {}
// SAFETY: as above.
unsafe impl Sync for DpdkPort {}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        let _one = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: opened by us; both halves of every queue are gone, and with them their frames.
        unsafe { curtail_dpdk_close(self.raw.as_ptr()) };
    }
}

/// The receiving half of a queue.
pub(super) struct Dpdk {
    port: Arc<DpdkPort>,
    sender: Arc<Sender>,
    queue: u16,
    /// Room for a burst, so that a look at an empty queue writes none of it.
    frames: Box<[Frame; BATCH]>,
}

// SAFETY: the frames' pointers are looked at only within `receive`, between the call that fills them
// in and that which gives them back.
unsafe impl Send for Dpdk {}

/// Frames received that go back when they have been looked at, or when that panics.
struct Burst<'a>(&'a [Frame]);

impl Burst<'_> {
    fn next(&mut self) -> Option<Lent> {
        let (first, others) = self.0.split_first()?;
        self.0 = others;
        Some(Lent(*first))
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}

/// A frame that goes back to its pool.
struct Lent(Frame);

impl Lent {
    /// To send it instead.
    fn into_buffer(self) -> *mut Buffer {
        let buffer = self.0.buffer;
        std::mem::forget(self);
        buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: received or lent, and neither sent nor given back: this value is its only one.
        unsafe { curtail_dpdk_give_back(self.0.buffer) };
    }
}

impl PacketDriver for Dpdk {
    fn receive(&mut self, most: usize, each: &mut dyn FnMut(&[u8])) -> usize {
        let (raw, place) = (self.port.raw.as_ptr(), self.frames.as_mut_ptr());
        // SAFETY: the port lives, this thread owns the queue, and the place has room for a burst.
        let count = unsafe { curtail_dpdk_receive(raw, self.queue, place, most.min(BATCH) as u16) };
        let count = usize::from(count).min(BATCH);
        let mut burst = Burst(&self.frames[..count]);
        while let Some(frame) = burst.next() {
            let bytes = frame.0.bytes as usize;
            // SAFETY: the bytes lie in a buffer that is ours until it is given back; the C half has
            // seen that they are within it. Its address is one also where there are none.
            each(unsafe { std::slice::from_raw_parts(frame.0.data, bytes) });
        }
        count
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    fn frames(&self) -> FrameCount {
        let (all, free) = self.port.frames(self.queue);
        // The device says nothing of those in its rings.
        FrameCount { total: all, known: free + (all - free).min(self.port.with_device) }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counts = Counts::default();
        // They are the port's, and said for one queue.
        if self.queue == 0 {
            // SAFETY: the port lives, and so does the place.
            unsafe { curtail_dpdk_counts(self.port.raw.as_ptr(), &raw mut counts) };
        }
        let (all, free) = self.port.frames(self.queue);
        vec![
            ("dpdk_frames", all as u64),
            ("dpdk_frames_in_use", (all - free) as u64),
            ("dpdk_dropped_full", counts.missed),
            ("dpdk_dropped_no_frame", counts.no_frame),
            ("dpdk_receive_errors", counts.errors),
            ("dpdk_send_errors", counts.unsent),
        ]
    }
}

impl DpdkPort {
    /// Frames of a queue: all, and those that are free.
    fn frames(&self, queue: u16) -> (usize, usize) {
        let (mut all, mut free) = (0, 0);
        // SAFETY: the port lives, and so do the places.
        unsafe { curtail_dpdk_frames(self.raw.as_ptr(), queue, &raw mut all, &raw mut free) };
        (all as usize, (free as usize).min(all as usize))
    }
}

/// The sending half of a queue.
struct Sender {
    port: Arc<DpdkPort>,
    queue: u16,
    turn: Mutex<()>,
}

impl FrameSender for Sender {
    fn send(&self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let raw = self.port.raw.as_ptr();
        let mut frame = Frame::NONE;
        // SAFETY: the port lives, and so does the place.
        if !unsafe { curtail_dpdk_lend(raw, self.queue, &raw mut frame) } {
            return false;
        }
        let lent = Lent(frame);
        let room = frame.bytes as usize;
        // SAFETY: a frame that was free, with room for so many bytes, which is this call's alone. They
        // have been written since DPDK got them from the kernel, with zeros at first.
        let place = unsafe { std::slice::from_raw_parts_mut(frame.data, room) };
        let Some(bytes) = write(place).filter(|&bytes| bytes > 0 && bytes <= room) else {
            return false;
        };
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the port lives, the lock is held, and the frame goes to the device or its pool.
        unsafe { curtail_dpdk_send(raw, self.queue, lent.into_buffer(), bytes as u32) }
    }

    /// Each is sent at once.
    fn wake(&self) {}
}
