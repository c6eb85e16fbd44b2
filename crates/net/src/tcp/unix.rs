//! Unix sockets in place of addresses: the same connections, between processes of one machine.

use crate::error::OpenError;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind as bind_to, connect, listen,
    socket_with,
};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On an address of IP.
    Inet(SocketAddr),
    /// On a Unix socket, by its file.
    Unix(PathBuf),
}

/// The file of a Unix socket that we listen on. It goes with this.
pub(crate) struct SocketFile(PathBuf);

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A listening socket and its file.
pub(crate) fn bind(path: &Path, backlog: usize) -> Result<(OwnedFd, SocketFile), OpenError> {
    let failed = |error: Errno| OpenError::system(&path.display().to_string(), error);
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    let new = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
    };
    let socket = new().map_err(failed)?;
    match bind_to(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            // Where nothing listens any more, the file was left behind.
            let asked = new().and_then(|client| connect(&client, &address));
            if asked != Err(Errno::CONNREFUSED) {
                return Err(OpenError::UnixInUse { path: path.to_owned() });
            }
            std::fs::remove_file(path)
                .map_err(|source| OpenError::System { what: path.display().to_string(), source })?;
            bind_to(&socket, &address).map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    let file = SocketFile(path.to_owned());
    listen(&socket, backlog as i32).map_err(failed)?;
    Ok((socket, file))
}
