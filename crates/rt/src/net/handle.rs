//! What all types of sockets have, written once.

use rustix::io::ioctl_fionbio;
use std::io;
use std::os::fd::AsFd;

/// Puts a descriptor into non-blocking mode, or back. What is no socket fails at its first use.
pub(super) fn set_mode(fd: impl AsFd, nonblocking: bool) {
    let _ = ioctl_fionbio(fd, nonblocking);
}

/// Lets as many wait to be accepted as the kernel allows (`net.core.somaxconn`). std says 128: beyond
/// that, the kernel drops what clients send, and they try again after a second.
pub(super) fn widen(listener: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, i32::MAX)?)
}

/// What kind of socket a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    /// Its descriptor has to be in non-blocking mode.
    Listener,
    Other,
}

/// Handles, conversions, errors.
macro_rules! handle {
    ($type:ident, $std:ty, $kind:ident) => {
        impl $type {
            fn of(fd: OwnedFd) -> Self {
                let kind = super::handle::Kind::$kind;
                if kind == super::handle::Kind::Listener {
                    super::handle::set_mode(&fd, true);
                }
                Self { source: Source::new(fd, kind == super::handle::Kind::Tcp) }
            }

            /// Calls `f` with std's type over the same descriptor: for what does not wait.
            fn with_std<R>(&self, f: impl FnOnce(&$std) -> R) -> R {
                // SAFETY: open as long as `self`, and never closed by this.
                let same = unsafe { <$std>::from_raw_fd(self.source.raw_fd()) };
                f(&ManuallyDrop::new(same))
            }

            /// A second handle of the same socket, without a system call.
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn try_clone(&self) -> io::Result<Self> {
                Ok(Self { source: self.source.clone() })
            }

            /// Its own address.
            ///
            /// # Errors
            /// What the kernel says.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.with_std(<$std>::local_addr)
            }

            /// The error that the socket has met since it was asked last, as std's.
            ///
            /// # Errors
            /// Where the kernel does not say.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.with_std(<$std>::take_error)
            }

            /// In non-blocking mode, what would wait fails with `WouldBlock`. For all handles.
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.source.set_nonblocking(nonblocking);
                Ok(())
            }

            /// Ends all waits for this socket, whatever handle they use, with
            /// [`ErrorKind::ConnectionAborted`](std::io::ErrorKind::ConnectionAborted), and shuts it
            /// down; what would wait later fails in the same way, and reads find the end. The
            /// descriptor is closed with the last handle.
            pub fn close(&self) {
                self.source.close();
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.with_std(|same| fmt::Debug::fmt(same, f))
            }
        }

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.source.as_fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.source.raw_fd()
            }
        }

        impl From<OwnedFd> for $type {
            fn from(fd: OwnedFd) -> Self {
                Self::of(fd)
            }
        }

        impl FromRawFd for $type {
            unsafe fn from_raw_fd(fd: RawFd) -> Self {
                // SAFETY: by contract.
                Self::of(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }

        impl From<$type> for OwnedFd {
            /// A duplicate where there are more handles.
            ///
            /// # Panics
            /// Where a duplicate is needed and the process has no descriptor left.
            fn from(socket: $type) -> Self {
                socket.source.into_fd()
            }
        }

        impl IntoRawFd for $type {
            /// As the conversion to an [`OwnedFd`].
            fn into_raw_fd(self) -> RawFd {
                self.source.into_fd().into_raw_fd()
            }
        }
    };
}

/// Methods of std's type that do not wait, passed on.
macro_rules! pass_on {
    ($type:ident: $($(#[$doc:meta])* $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {
        impl $type {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// What the kernel says.
                pub fn $name(&self $(, $argument: $of)*) -> io::Result<$result> {
                    self.with_std(|same| same.$name($($argument),*))
                }
            )*
        }
    };
}

/// Conversions of a socket that has timeouts, and these.
macro_rules! timeouts {
    ($type:ident, $std:ty) => {
        impl $type {
            /// How long a read waits at most; `None`: as long as it takes. For all handles.
            ///
            /// # Errors
            /// `InvalidInput` for a timeout of zero.
            pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.source.set_timeout(Side::Read, timeout)
            }

            /// How long a write waits at most; `None`: as long as it takes. For all handles.
            ///
            /// # Errors
            /// `InvalidInput` for a timeout of zero.
            pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.source.set_timeout(Side::Write, timeout)
            }

            /// See [`Self::set_read_timeout`].
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.source.timeout(Side::Read))
            }

            /// See [`Self::set_write_timeout`].
            ///
            /// # Errors
            /// None; the signature is std's.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.source.timeout(Side::Write))
            }
        }

        impl From<$std> for $type {
            /// With std's timeouts; in blocking mode.
            fn from(socket: $std) -> Self {
                let timeouts = (socket.read_timeout(), socket.write_timeout());
                let socket = Self::of(OwnedFd::from(socket));
                // None of them is zero: that is no timeout for the kernel either.
                let _ = socket.set_read_timeout(timeouts.0.ok().flatten());
                let _ = socket.set_write_timeout(timeouts.1.ok().flatten());
                socket
            }
        }

        impl From<$type> for $std {
            /// With this one's timeouts, in blocking mode. See also the conversion to [`OwnedFd`].
            fn from(socket: $type) -> Self {
                let (read, write) =
                    (socket.source.timeout(Side::Read), socket.source.timeout(Side::Write));
                let socket = <$std>::from(socket.source.into_fd());
                super::handle::set_mode(&socket, false);
                let _ = socket.set_read_timeout(read);
                let _ = socket.set_write_timeout(write);
                socket
            }
        }
    };
}

/// Conversions of a listener.
macro_rules! listener {
    ($type:ident, $std:ty) => {
        impl From<$std> for $type {
            /// In blocking mode, whatever std's was in.
            fn from(listener: $std) -> Self {
                Self::of(OwnedFd::from(listener))
            }
        }

        impl From<$type> for $std {
            /// In blocking mode, unless there are clones, which need the other one.
            fn from(listener: $type) -> Self {
                let alone = listener.source.is_alone();
                let listener = <$std>::from(listener.source.into_fd());
                super::handle::set_mode(&listener, !alone);
                listener
            }
        }
    };
}

/// Reads and writes of a stream, by itself and by reference.
macro_rules! stream {
    ($type:ident) => {
        impl Read for &$type {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.source.read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.source.read_vectored(buffers)
            }
        }

        impl Write for &$type {
            fn write(&mut self, data: &[u8]) -> io::Result<usize> {
                self.source.write(data)
            }

            fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
                self.source.write_vectored(data)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Read for $type {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.source.read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.source.read_vectored(buffers)
            }
        }

        impl Write for $type {
            fn write(&mut self, data: &[u8]) -> io::Result<usize> {
                self.source.write(data)
            }

            fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
                self.source.write_vectored(data)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(super) use {handle, listener, pass_on, stream, timeouts};
