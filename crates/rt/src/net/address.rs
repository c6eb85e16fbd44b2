//! Addresses: std's, and those of system calls.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};
use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::slice;
use std::sync::OnceLock;

/// An IP socket's peer.
pub(super) fn ip(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    let address = address.ok_or(Errno::AFNOSUPPORT)?;
    Ok(SocketAddr::try_from(address)?)
}

/// A Unix socket's peer, which may have no name.
pub(super) fn unix(address: Option<SocketAddrAny>) -> io::Result<UnixAddr> {
    let Some(address) = address else { return unnamed() };
    if address.address_family() != AddressFamily::UNIX {
        return Err(Errno::AFNOSUPPORT.into());
    }
    // SAFETY: the address is that long, and initialised.
    let bytes = unsafe {
        slice::from_raw_parts(address.as_ptr().cast::<u8>(), address.addr_len() as usize)
    };
    match bytes.get(size_of::<libc::sa_family_t>()..).unwrap_or_default() {
        [] => unnamed(),
        [0, name @ ..] => UnixAddr::from_abstract_name(name),
        path => {
            let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
            // The kernel's may be one byte longer than std's: it is no reason to refuse a peer.
            UnixAddr::from_pathname(OsStr::from_bytes(path)).or_else(|_| unnamed())
        }
    }
}

/// std makes one only for a socket that has no name.
fn unnamed() -> io::Result<UnixAddr> {
    static UNNAMED: OnceLock<UnixAddr> = OnceLock::new();
    if let Some(address) = UNNAMED.get() {
        return Ok(address.clone());
    }
    let address = UnixDatagram::unbound()?.local_addr()?;
    Ok(UNNAMED.get_or_init(|| address).clone())
}

/// For system calls.
pub(super) fn of_unix(address: &UnixAddr) -> io::Result<SocketAddrUnix> {
    if let Some(name) = address.as_abstract_name() {
        return Ok(SocketAddrUnix::new_abstract_name(name)?);
    }
    match address.as_pathname() {
        Some(path) => Ok(SocketAddrUnix::new(path)?),
        None => Ok(SocketAddrUnix::new_unnamed()),
    }
}

/// Tries `open` with each address until one works.
///
/// # Errors
/// That of the last one.
pub(super) fn each<T>(
    addresses: &mut dyn Iterator<Item = SocketAddr>,
    open: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last =
        io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses");
    for address in addresses {
        match open(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The first of several.
pub(super) fn first(address: &impl ToSocketAddrs) -> io::Result<SocketAddr> {
    address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"))
}
