//! A flow with one request in progress at a time: what comes is its answer. Those that are sent
//! meanwhile wait here, in order.

use super::socket::{Came, Socket, Url};
use super::wire::Wire;
use rustix::event::PollFd;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// After this long without an answer a request is lost.
const LOST: Duration = Duration::from_secs(1);
/// Bytes that may wait before no further message is taken.
const MOST: usize = 64 << 10;

/// The flow, and what it waits for.
#[derive(Debug)]
pub(crate) struct Alone {
    url: Url,
    socket: Socket,
    /// Which request, and since when.
    asked: Option<(u64, Instant)>,
    behind: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Alone {
    pub(super) fn open(url: &Url) -> io::Result<Self> {
        let socket = Socket::flow(url, &Wire::Spin)?;
        Ok(Self { url: url.clone(), socket, asked: None, behind: VecDeque::new(), bytes: 0 })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.asked.is_some() || !self.behind.is_empty()
    }

    /// `false`: there is no room for it now.
    pub(super) fn send(&mut self, id: u64, message: &[u8]) -> io::Result<bool> {
        if self.bytes > MOST {
            return Ok(false);
        }
        self.bytes += message.len();
        self.behind.push_back((id, message.to_vec()));
        self.next()?;
        Ok(true)
    }

    /// Sends what is first, where nothing is in progress.
    fn next(&mut self) -> io::Result<()> {
        if self.asked.is_some_and(|(_, since)| since.elapsed() >= LOST) {
            // On a new flow a late answer meets nothing.
            self.socket = Socket::flow(&self.url, &Wire::Spin)?;
            self.asked = None;
        }
        if self.asked.is_some() {
            return Ok(());
        }
        let Some((id, message)) = self.behind.front() else { return Ok(()) };
        if self.socket.send(*id, message)? {
            self.asked = Some((*id, Instant::now()));
            self.bytes -= message.len();
            self.behind.pop_front();
        }
        Ok(())
    }

    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Came<'_>),
    ) -> io::Result<()> {
        let Self { socket, asked, .. } = self;
        socket.receive(buffer, &mut |Came { bytes, .. }| {
            if let Some((id, _)) = asked.take() {
                take(Came { bytes, of: Some((id, 0)) });
            }
        })?;
        self.next()
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.socket.poll_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn an_answer_is_of_the_request_in_progress_and_the_next_goes_out_then() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let url = Url::parse(&format!("udp://{}", server.local_addr().unwrap())).unwrap();
        let mut alone = Alone::open(&url).unwrap();
        for id in 1..=3 {
            assert!(alone.send(id, b"hello").unwrap());
        }
        let mut came = Vec::new();
        for id in 1..=3 {
            assert!(alone.is_busy());
            let mut buffer = [0; 64];
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"hello");
            server.send_to(&[id], from).unwrap();
            while came.len() < usize::from(id) {
                let mut fds = [alone.poll_fd().unwrap()];
                let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
                assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1));
                let mut keep = |Came { bytes, of }: Came<'_>| came.push((bytes[0], of.unwrap()));
                alone.receive(&mut [0; 64], &mut keep).unwrap();
            }
        }
        assert_eq!(came, [(1, (1, 0)), (2, (2, 0)), (3, (3, 0))]);
        assert!(!alone.is_busy());
    }

    #[test]
    fn what_waits_is_bounded() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("udp://{}", server.local_addr().unwrap())).unwrap();
        let mut alone = Alone::open(&url).unwrap();
        let taken = (0..100).take_while(|&id| alone.send(id, &[0; 1_000]).unwrap()).count();
        assert_eq!(taken, 1 + MOST / 1_000 + 1);
    }
}
