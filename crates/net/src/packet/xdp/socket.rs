//! One queue of an interface: an `AF_XDP` socket with its memory and its rings.
//!
//! The dispatcher's thread owns [`AfXdp`], which receives; whoever sends takes the lock of [`Port`]'s
//! other half. Frames for either way are kept apart, so the halves share nothing but the memory and
//! the socket. Invariant: a frame is in one place: free, lent for a call, or in a ring or beyond it.

use super::ring::{Descriptor, Mapping, Ring};
use super::{Attached, XdpError, XdpMode};
use crate::packet::{FrameCount, FrameSender, PacketDriver};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::net::{bind, recv, send, socket_with};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames taken out of a ring at a time.
const BATCH: usize = 64;
/// Calls of the kernel to send what is queued before the dispatcher goes on with it.
const WAKES: usize = 8;

/// What a queue is made with.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// Frames for each way, a power of two.
    pub(super) frames: u32,
    pub(super) frame_bytes: u32,
    pub(super) zero_copy: bool,
}

/// The receiving half.
pub struct AfXdp {
    port: Arc<Port>,
    filled: Ring<u64>,
    received: Ring<Descriptor>,
    /// Frames that the kernel has, in rings or beyond.
    given: u32,
    _attached: Arc<Attached>,
}

/// The sending half, and what both have.
struct Port {
    socket: OwnedFd,
    memory: Mapping,
    shape: Shape,
    outgoing: Mutex<Outgoing>,
    /// The kernel could not send all when it was called.
    is_behind: AtomicBool,
}

struct Outgoing {
    queued: Ring<Descriptor>,
    completed: Ring<u64>,
    free: Vec<u64>,
    given: u32,
}

impl AfXdp {
    /// Opens a queue. Frames come when it is in the map of the program.
    pub(super) fn open(shape: Shape, attached: Arc<Attached>) -> Result<Self, XdpError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
            .map_err(XdpError::of_socket)?;
        let failed = |error: Errno| XdpError::of_memory(error);
        let memory = Mapping::anonymous(2 * shape.frames as usize * shape.frame_bytes as usize)
            .map_err(failed)?;
        let area = XdpUmemReg {
            addr: memory.address(),
            len: memory.bytes() as u64,
            chunk_size: shape.frame_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, area).map_err(failed)?;
        let size = shape.frames;
        // The kernel tells what it has taken only when it looks for more. So with as many frames there, and
        // as many given back meanwhile, the ring still has room for each.
        sockopt::set_xdp_umem_fill_ring_size(&socket, 2 * size).map_err(failed)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, size).map_err(failed)?;
        sockopt::set_xdp_rx_ring_size(&socket, size).map_err(failed)?;
        sockopt::set_xdp_tx_ring_size(&socket, size).map_err(failed)?;
        let at = sockopt::xdp_mmap_offsets(&socket).map_err(failed)?;
        let fd = socket.as_fd();
        let mut filled =
            Ring::map(fd, XDP_UMEM_PGOFF_FILL_RING, &at.fr, 2 * size).map_err(failed)?;
        let completed =
            Ring::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, size).map_err(failed)?;
        let received = Ring::map(fd, XDP_PGOFF_RX_RING, &at.rx, size).map_err(failed)?;
        let queued = Ring::map(fd, XDP_PGOFF_TX_RING, &at.tx, size).map_err(failed)?;
        let frame = |index: u32| u64::from(index) * u64::from(shape.frame_bytes);
        let given = (0..size).filter(|&index| filled.put(frame(index))).count() as u32;
        let way = match shape.zero_copy {
            true => SocketAddrXdpFlags::XDP_ZEROCOPY,
            false => SocketAddrXdpFlags::XDP_COPY,
        };
        let flags = way | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind(&socket, &SocketAddrXdp::new(flags, shape.interface, shape.queue))
            .map_err(|error| XdpError::of_bind(error, shape.queue))?;
        let free = (size..2 * size).map(frame).collect();
        let outgoing = Outgoing { queued, completed, free, given: 0 };
        let port = Port {
            socket,
            memory,
            shape,
            outgoing: Mutex::new(outgoing),
            is_behind: AtomicBool::new(false),
        };
        Ok(Self { port: Arc::new(port), filled, received, given, _attached: attached })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.port.socket.as_fd()
    }

    /// Has the driver look at the frames that were given back, if it wants to be told.
    fn nudge(&self) {
        if self.filled.needs_wake() {
            let _ = recv(&self.port.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    pub(super) fn mode(&self, is_generic: bool) -> XdpMode {
        match (self.port.shape.zero_copy, is_generic) {
            (true, _) => XdpMode::ZeroCopy,
            (false, false) => XdpMode::Copy,
            (false, true) => XdpMode::Generic,
        }
    }
}

impl PacketDriver for AfXdp {
    fn receive(&mut self, most: usize, each: &mut dyn FnMut(&[u8])) -> usize {
        if self.received.filled() == 0 {
            self.nudge();
            return 0;
        }
        let mut batch = [Descriptor::default(); BATCH];
        let count = self.received.take(&mut batch[..most.min(BATCH)]);
        self.given -= count as u32;
        for one in &batch[..count] {
            // SAFETY: the kernel has handed this frame over and does not touch it before it is in the
            // fill ring again; only this thread receives, and senders have other frames.
            let frame = unsafe { self.port.memory.slice(one.address, one.bytes as usize) };
            each(frame.unwrap_or_default());
            let first = one.address & !u64::from(self.port.shape.frame_bytes - 1);
            self.given += u32::from(self.filled.put(first));
        }
        self.nudge();
        count
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.port.clone()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.port.socket.as_raw_fd())
    }

    fn flush(&mut self) -> bool {
        // It is set again where the kernel still can't.
        let is_behind = &self.port.is_behind;
        if is_behind.load(Ordering::Relaxed) && is_behind.swap(false, Ordering::Relaxed) {
            self.port.wake();
        }
        !is_behind.load(Ordering::Relaxed)
    }

    fn frames(&self) -> FrameCount {
        let mut outgoing = self.port.outgoing();
        outgoing.reclaim();
        let known = self.given as usize + outgoing.free.len() + outgoing.given as usize;
        FrameCount { total: 2 * self.port.shape.frames as usize, known }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let found = sockopt::xdp_statistics(&self.port.socket).ok();
        let of = |value: Option<u64>| value.unwrap_or(0);
        vec![
            ("xdp_zero_copy_queues", self.port.shape.zero_copy.into()),
            ("xdp_dropped", of(found.map(|it| it.rx_dropped))),
            ("xdp_dropped_full", of(found.and_then(|it| it.rx_ring_full))),
            ("xdp_dropped_no_frame", of(found.and_then(|it| it.rx_fill_ring_empty_descs))),
        ]
    }
}

impl Port {
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    /// Takes back what was sent.
    fn reclaim(&mut self) {
        let mut batch = [0; BATCH];
        loop {
            let count = self.completed.take(&mut batch);
            self.given -= count as u32;
            self.free.extend_from_slice(&batch[..count]);
            if count < BATCH {
                return;
            }
        }
    }
}

impl FrameSender for Port {
    fn send(&self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut outgoing = self.outgoing();
        if outgoing.free.is_empty() {
            outgoing.reclaim();
        }
        let Some(address) = outgoing.free.pop() else { return false };
        // SAFETY: a free frame is nobody's, and it was taken from the list under the lock.
        let frame = unsafe { self.memory.slice_mut(address, self.shape.frame_bytes as usize) };
        let most = self.shape.frame_bytes as usize;
        let bytes = frame.and_then(write).filter(|&bytes| bytes <= most);
        let queued = bytes.is_some_and(|bytes| {
            outgoing.queued.put(Descriptor { address, bytes: bytes as u32, options: 0 })
        });
        if queued {
            outgoing.given += 1;
        } else {
            outgoing.free.push(address);
        }
        queued
    }

    fn wake(&self) {
        let needs = self.outgoing().queued.needs_wake();
        for _ in 0..if needs { WAKES } else { 0 } {
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                // More is queued than one call sends, or the device's queue is full.
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                // Where the interface is down or gone, what is queued stays so.
                _ => return,
            }
        }
        if needs {
            self.is_behind.store(true, Ordering::Relaxed);
        }
    }
}
