//! What a packet driver is: frames come, and frames go.
//!
//! A frame is lent for the length of a call and never handed out, so no caller can lose one. The
//! dispatcher's thread owns the [`PacketDriver`], one for each queue of a device; workers share its
//! [`FrameSender`].

use std::os::fd::RawFd;
use std::sync::Arc;

/// Where the frames of a driver's memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCount {
    /// Frames that there are.
    pub total: usize,
    /// Those of which the driver knows where they are: free, with the device, or with a queue of it.
    pub known: usize,
}

/// One queue of a device.
pub trait PacketDriver: Send {
    /// Lends each of up to `most` frames that have come to `each`, and takes them back. Never blocks.
    /// The answer is how many there were.
    fn receive(&mut self, most: usize, each: &mut dyn FnMut(&[u8])) -> usize;

    /// The side that sends.
    fn sender(&self) -> Arc<dyn FrameSender>;

    /// Becomes readable when a frame has come; `None`: it has to be polled.
    fn wait_fd(&self) -> Option<RawFd>;

    /// Does what could not be done when frames were handed in. False: something is left, and the
    /// driver has to be asked again.
    fn flush(&mut self) -> bool {
        true
    }

    /// Where its frames are.
    fn frames(&self) -> FrameCount;

    /// What it counted so far, by name: the same names in the same order for each queue of a device.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Sends frames; shared by all who do.
pub trait FrameSender: Send + Sync {
    /// Lends a frame to `write`, which says how many bytes of it are to be sent (`None`: it is not to
    /// be), and queues it. False: no frame was free, or none was written.
    fn send(&self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool;

    /// Has the device send what is queued, if it has to be told.
    fn wake(&self);
}
