//! Where it listens.

use super::deadline::Deadlines;
use super::outbox::Outboxes;
use super::token::Token;
use super::unix::{self, Listen, SocketFile};
use super::{READ_BYTES, Tcp, TcpConfig, accept};
use crate::PeakTrim;
use crate::error::OpenError;
use crate::{group, socket};
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketType, listen};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl Tcp {
    /// Listens on `addresses`.
    ///
    /// # Errors
    /// [`OpenError`]: no address, a setting out of range, or what the kernel said.
    pub fn bind(addresses: &[SocketAddr], config: &TcpConfig) -> Result<Self, OpenError> {
        let places: Vec<Listen> = addresses.iter().copied().map(Listen::Inet).collect();
        Self::listen(&places, config)
    }

    /// Listens on addresses and Unix sockets.
    ///
    /// The file of a Unix socket is made, and removed with the transport. One that is there already is
    /// replaced if no process listens on it any more.
    ///
    /// # Errors
    /// As [`Tcp::bind`].
    pub fn listen(places: &[Listen], config: &TcpConfig) -> Result<Self, OpenError> {
        if places.is_empty() {
            return Err(OpenError::NoAddress);
        }
        config.check()?;
        let mut listeners = Vec::new();
        let (mut bound, mut paths) = (Vec::new(), Vec::new());
        for place in places {
            listeners.push(match place {
                Listen::Inet(address) => {
                    let (socket, local) = socket::bind(*address, SocketType::STREAM)?;
                    begin(&socket, config).map_err(|error| OpenError::of(*address, error))?;
                    bound.push(local);
                    socket
                }
                Listen::Unix(path) => {
                    let (socket, file) = unix::bind(path, config.backlog)?;
                    paths.push(file);
                    socket
                }
            });
        }
        Self::over(listeners, (bound, paths), config)
    }

    /// The other parts of it, where it becomes one of so many.
    pub(super) fn parts(&mut self, parts: usize) -> Result<Vec<Self>, OpenError> {
        let config = TcpConfig { memory: self.config.memory / parts, ..self.config.clone() };
        config.check()?;
        let listeners = std::mem::take(&mut self.listeners);
        let others = group::split(&listeners, parts, |listener| {
            if socket::local_address(listener).is_ok() {
                return group::join(listener, SocketType::STREAM, parts, |socket| {
                    begin(socket, &config)
                });
            }
            // A Unix socket has no group: who has time accepts.
            let clone = |_| listener.try_clone();
            let cloned = (1..parts).map(clone).collect::<io::Result<_>>();
            cloned.map_err(|source| OpenError::System { what: group::WHAT.to_owned(), source })
        })?;
        let addresses = std::mem::take(&mut self.addresses);
        let part = |listeners| Self::over(listeners, (addresses.clone(), Vec::new()), &config);
        let others = others.into_iter().map(part).collect::<Result<_, _>>()?;
        let paths = std::mem::take(&mut self.paths);
        *self = Self::over(listeners, (addresses, paths), &config)?;
        Ok(others)
    }

    /// By listening sockets.
    fn over(
        listeners: Vec<OwnedFd>,
        (addresses, paths): (Vec<SocketAddr>, Vec<SocketFile>),
        config: &TcpConfig,
    ) -> Result<Self, OpenError> {
        let system = |error| OpenError::system("TCP transport", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system)?;
        for (index, socket) in listeners.iter().enumerate() {
            let token = Token::Listener(index as u32).into();
            epoll::add(&epoll, socket, token, EventFlags::IN).map_err(system)?;
        }
        let count = config.connections;
        let again = socket::event().map_err(system)?;
        epoll::add(&epoll, &again, Token::Again.into(), EventFlags::IN).map_err(system)?;
        let again = Arc::new(again);
        let deadlines = Deadlines::new(&epoll).map_err(system)?;
        Ok(Self {
            shared: Arc::new(Outboxes::new(config, epoll)),
            listeners,
            addresses,
            paths,
            connections: (0..count).map(|_| None).collect(),
            free: (0..count as u32).rev().collect(),
            ready: VecDeque::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            again,
            again_signalled: false,
            ending: VecDeque::new(),
            starved: VecDeque::new(),
            to_feed: 0,
            to_search: 0,
            search_at: 0,
            orphans: 0,
            orphan_bytes: 0,
            deadlines,
            departed: false,
            ebb: PeakTrim::default(),
            spare: accept::spare(),
            closing: false,
            lent: None,
            config: config.clone(),
        })
    }
}

/// From now on clients may connect.
fn begin(socket: &OwnedFd, config: &TcpConfig) -> Result<(), Errno> {
    accept::prepare(socket, config.keepalive)?;
    listen(socket, config.backlog as i32)
}
