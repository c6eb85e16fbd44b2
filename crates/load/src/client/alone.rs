//! A flow with one request in progress at a time: what comes is its answer.

use super::socket::{Came, Socket, Url};
use super::wire::Wire;
use rustix::event::PollFd;
use std::io;
use std::time::{Duration, Instant};

/// After this long without an answer a request is lost.
const LOST: Duration = Duration::from_secs(1);

/// The flow, and what it waits for.
#[derive(Debug)]
pub(crate) struct Alone {
    url: Url,
    socket: Socket,
    /// Which request, and since when.
    asked: Option<(u64, Instant)>,
}

impl Alone {
    pub(super) fn open(url: &Url) -> io::Result<Self> {
        Ok(Self { url: url.clone(), socket: Socket::flow(url, &Wire::Spin)?, asked: None })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.asked.is_some_and(|(_, since)| since.elapsed() < LOST)
    }

    /// `false`: there is no room for it now, or another request is in progress.
    pub(super) fn send(&mut self, id: u64, message: &[u8]) -> io::Result<bool> {
        if self.is_busy() {
            return Ok(false);
        }
        if self.asked.take().is_some() {
            // On a new flow a late answer meets nothing.
            self.socket = Socket::flow_to_be(&self.url, &Wire::Spin)?;
        }
        let sent = self.socket.send(id, message)?;
        self.asked = sent.then(|| (id, Instant::now()));
        Ok(sent)
    }

    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut dyn FnMut(Came<'_>),
    ) -> io::Result<()> {
        let Self { socket, asked, .. } = self;
        let outcome = socket.receive(buffer, &mut |Came { bytes, .. }| {
            if let Some((id, _)) = asked.take() {
                take(Came { bytes, of: Some((id, 0)) });
            }
        });
        if outcome.is_err() {
            // No server listened: no answer comes.
            *asked = None;
        }
        outcome
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.socket.poll_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};

    /// What comes next.
    fn next(alone: &mut Alone) -> io::Result<(u8, u64)> {
        let mut came = None;
        while came.is_none() {
            let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
            let mut fds = [alone.poll_fd().unwrap()];
            assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1));
            let mut keep = |Came { bytes, of }: Came<'_>| came = Some((bytes[0], of.unwrap().0));
            alone.receive(&mut [0; 64], &mut keep)?;
        }
        Ok(came.unwrap())
    }

    #[test]
    fn an_answer_is_of_the_request_in_progress_and_the_next_goes_out_then() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let url = Url::parse(&format!("udp://{}", server.local_addr().unwrap())).unwrap();
        let mut alone = Alone::open(&url).unwrap();
        for id in 1..=3 {
            assert!(!alone.is_busy());
            assert!(alone.send(id.into(), b"hello").unwrap());
            assert!(alone.is_busy() && !alone.send(9, b"later").unwrap());
            let mut buffer = [0; 64];
            let (length, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"hello");
            server.send_to(&[id], from).unwrap();
            assert_eq!(next(&mut alone).unwrap(), (id, id.into()));
        }
        drop(server);
        assert!(alone.send(4, b"hello").unwrap());
        assert!(next(&mut alone).is_err(), "no server listens");
        assert!(!alone.is_busy());
    }

    #[test]
    fn a_lost_request_ends_its_flow_and_the_next_has_another() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("tcp://{}", server.local_addr().unwrap())).unwrap();
        let mut alone = Alone::open(&url).unwrap();
        let (_first, _) = server.accept().unwrap();
        assert!(alone.send(1, b"a").unwrap());
        alone.asked = Instant::now().checked_sub(LOST).map(|since| (1, since));
        assert!(!alone.is_busy());
        assert!(alone.send(2, b"b").unwrap());
        let (mut second, _) = server.accept().unwrap();
        // The connection has come about since: what waits for that goes out.
        alone.receive(&mut [0; 64], &mut |_| ()).unwrap();
        let mut sent = [0; 5];
        second.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"\x01\0\0\0b");
        second.write_all(b"\x01\0\0\0c").unwrap();
        assert_eq!(next(&mut alone).unwrap(), (b'c', 2));
    }
}
