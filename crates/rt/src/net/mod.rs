//! Sockets for threads, beside the transports of servers ([`open`], [`Tcp`], [`Udp`], [`Local`]).
//!
//! [`TcpListener`], [`TcpStream`], [`UdpSocket`], [`UnixListener`], [`UnixStream`] and
//! [`UnixDatagram`] are std's types of these names, with std's signatures, and one difference: what
//! blocks, blocks the thread that calls, and its kthread goes on with others. On a plain thread they
//! block as std's do. What else differs:
//!
//! * `try_clone` makes a second handle of the same socket: it makes no system call, needs no further
//!   descriptor, and cannot fail. Timeouts and non-blocking mode belong to the socket, as in std.
//!   The halves of a stream are two handles, or two references: `&TcpStream` reads and writes.
//! * `close` ends the waits of all who use the socket, from any thread, with
//!   [`ErrorKind::ConnectionAborted`](std::io::ErrorKind::ConnectionAborted), and so do later calls
//!   that would wait. Dropping a handle while another one waits does not end that wait.
//! * A timeout of the socket ends a wait with `WouldBlock`, as in std; that of
//!   [`curtail::time::timeout`](crate::time::timeout) ends the closure.
//! * Names of hosts are looked up on ordinary threads ([`blocking`](fn@crate::blocking)); that is not
//!   ended by a timeout.
//! * Descriptors may be in blocking or non-blocking mode, which is no matter here; a listener's is in
//!   non-blocking mode. What becomes std's type is in blocking mode, except for a listener that has
//!   clones.

mod address;
mod handle;
mod tcp;
mod udp;
mod unix;
mod unix_datagram;

pub use curtail_net::*;
pub use tcp::{Incoming, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixIncoming, UnixListener, UnixStream};
pub use unix_datagram::UnixDatagram;
