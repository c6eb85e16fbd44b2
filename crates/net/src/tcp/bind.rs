//! Where it listens.

use super::deadline::Deadlines;
use super::outbox::Outboxes;
use super::token::Token;
use super::unix::{self, Listen};
use super::{READ_BYTES, Tcp, TcpConfig, accept};
use crate::PeakTrim;
use crate::error::OpenError;
use crate::socket;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::net::{SocketType, listen};
use std::collections::VecDeque;
use std::net::SocketAddr;
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
        let (count, backlog) = (config.connections, config.backlog);
        let system = |error| OpenError::system("TCP transport", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system)?;
        let mut listeners = Vec::new();
        let (mut bound, mut paths) = (Vec::new(), Vec::new());
        for (index, place) in places.iter().enumerate() {
            let socket = match place {
                Listen::Inet(address) => {
                    let (socket, local) = socket::bind(*address, SocketType::STREAM)?;
                    accept::prepare(&socket, config.keepalive).map_err(system)?;
                    listen(&socket, backlog as i32)
                        .map_err(|error| OpenError::of(*address, error))?;
                    bound.push(local);
                    socket
                }
                Listen::Unix(path) => {
                    let (socket, file) = unix::bind(path, backlog)?;
                    paths.push(file);
                    socket
                }
            };
            let token = Token::Listener(index as u32).into();
            epoll::add(&epoll, &socket, token, EventFlags::IN).map_err(system)?;
            listeners.push(socket);
        }
        let again = socket::event().map_err(system)?;
        epoll::add(&epoll, &again, Token::Again.into(), EventFlags::IN).map_err(system)?;
        let again = Arc::new(again);
        let deadlines = Deadlines::new(&epoll).map_err(system)?;
        Ok(Self {
            shared: Arc::new(Outboxes::new(config, epoll)),
            listeners,
            addresses: bound,
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
