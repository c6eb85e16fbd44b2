//! A device in memory, for tests: what is put into its link comes out of the driver, with seeded
//! faults where asked for, and the other way round without.
//!
//! Frames are boxes that are either free or in one of two queues. They are few, as a device's are: a
//! frame that never comes back is missed, and what finds no frame is lost.

use super::driver::{FrameCount, FrameSender, PacketDriver};
use crate::FaultConfig;
use crate::fault::{Draws, Fate};
use crate::socket::{drain, event, signal};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames held back at most.
const MOST_HELD: usize = 64;

/// The driver's side.
pub struct Simulated {
    shared: Arc<Shared>,
}

/// The other end of its wire.
#[derive(Clone)]
pub struct SimulatedLink {
    shared: Arc<Shared>,
}

struct Shared {
    bell: OwnedFd,
    state: Mutex<Device>,
}

struct Device {
    total: usize,
    free: Vec<Box<[u8]>>,
    /// Frames with their lengths.
    to_us: VecDeque<(Box<[u8]>, usize)>,
    to_wire: VecDeque<(Box<[u8]>, usize)>,
    lost: u64,
    config: FaultConfig,
    draws: Draws,
    /// Frames that wait to be overtaken by that many others.
    held: Vec<(u64, Vec<u8>)>,
}

impl Simulated {
    /// A device with so many frames of so many bytes, and the other end of its wire. Of the faults,
    /// `reorder` lets one frame pass, `delay` up to `delay_polls`.
    ///
    /// # Errors
    /// No descriptor is to be had.
    pub fn new(
        frames: usize,
        bytes: usize,
        config: FaultConfig,
    ) -> Result<(Self, SimulatedLink), Errno> {
        let state = Device {
            total: frames,
            free: (0..frames).map(|_| vec![0; bytes].into_boxed_slice()).collect(),
            to_us: VecDeque::new(),
            to_wire: VecDeque::new(),
            lost: 0,
            draws: Draws::new(config.seed),
            config,
            held: Vec::new(),
        };
        let shared = Arc::new(Shared { bell: event()?, state: Mutex::new(state) });
        Ok((Self { shared: shared.clone() }, SimulatedLink { shared }))
    }
}

impl SimulatedLink {
    /// A frame from the wire. Without a free frame, or where it is longer than one, it is lost.
    pub fn put(&self, frame: &[u8]) {
        self.shared.state().arrive(frame);
        signal(&self.shared.bell);
    }

    /// What the device sent, the oldest first.
    #[must_use]
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.shared.state();
        let (frame, length) = state.to_wire.pop_front()?;
        let bytes = frame[..length].to_vec();
        state.free.push(frame);
        Some(bytes)
    }

    /// Frames that were lost for want of a free one.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.state().lost
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Device> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Decides what becomes of a frame.
    fn arrive(&mut self, frame: &[u8]) {
        let mut frame = frame.to_vec();
        let fate = self.draws.fate(&self.config);
        if fate == Fate::Drop {
            return;
        }
        self.draws.damage(&self.config, &mut frame);
        let waits = match fate {
            Fate::Reorder => 1,
            Fate::Delay => 1 + self.draws.next() % self.config.delay_polls.max(1),
            _ => 0,
        };
        if waits > 0 && self.held.len() < MOST_HELD {
            self.held.push((waits, frame));
            return;
        }
        self.deliver(&frame);
        if fate == Fate::Duplicate {
            self.deliver(&frame);
        }
        for (waits, _) in &mut self.held {
            *waits -= 1;
        }
        let due: Vec<_> = self.held.extract_if(.., |(waits, _)| *waits == 0).collect();
        for (_, frame) in due {
            self.deliver(&frame);
        }
    }

    fn deliver(&mut self, bytes: &[u8]) {
        match self.free.pop() {
            Some(mut frame) if bytes.len() <= frame.len() => {
                frame[..bytes.len()].copy_from_slice(bytes);
                self.to_us.push_back((frame, bytes.len()));
            }
            other => {
                self.free.extend(other);
                self.lost += 1;
            }
        }
    }
}

impl PacketDriver for Simulated {
    fn receive(&mut self, most: usize, each: &mut dyn FnMut(&[u8])) -> usize {
        for count in 0..most {
            let next = self.shared.state().to_us.pop_front();
            let Some((frame, length)) = next else {
                drain(&self.shared.bell);
                // One may have come in between.
                if !self.shared.state().to_us.is_empty() {
                    signal(&self.shared.bell);
                }
                return count;
            };
            each(&frame[..length]);
            self.shared.state().free.push(frame);
        }
        most
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.shared.clone()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.shared.bell.as_raw_fd())
    }

    fn frames(&self) -> FrameCount {
        let state = self.shared.state();
        let known = state.free.len() + state.to_us.len() + state.to_wire.len();
        FrameCount { total: state.total, known }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("simulated_lost", self.shared.state().lost)]
    }
}

impl FrameSender for Shared {
    fn send(&self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut state = self.state();
        let Some(mut frame) = state.free.pop() else { return false };
        match write(&mut frame) {
            Some(length) if length <= frame.len() => {
                state.to_wire.push_back((frame, length));
                true
            }
            _ => {
                state.free.push(frame);
                false
            }
        }
    }

    fn wake(&self) {}
}
