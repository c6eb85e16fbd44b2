//! How a runtime's threads reach the kernel.

use super::RuntimeBuilder;
use crate::socket::uring::{Io, IoPlan};

impl RuntimeBuilder {
    /// How the kernel is asked for what threads wait for. Default: `$CURTAIL_IO` (`auto`, `epoll`,
    /// `uring`), or [`Io::Auto`].
    pub fn io(mut self, io: Io) -> Self {
        self.io = Some(io);
        self
    }

    /// For tests: as if the kernel refused io_uring with this error.
    #[doc(hidden)]
    pub fn refuse_io_uring(mut self, errno: i32) -> Self {
        self.refusal = Some(errno);
        self
    }

    pub(super) fn plan(&self) -> IoPlan {
        let io = self.io.or_else(Io::inherited).unwrap_or_default();
        IoPlan { io, refusal: self.refusal }
    }
}
