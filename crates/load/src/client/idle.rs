//! Asking an idle server, one request at a time: whether it is there, and what its service takes.

use super::Client;
use super::socket::{Came, wait};
use super::wire::{Answer, Outcome};
use crate::Error;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Requests of each class whose service times are asked for.
const ASKED: usize = 41;
/// Service times are asked for no longer than this.
const AT_MOST: Duration = Duration::from_millis(500);
/// After this long a request is repeated.
const RETRY: Duration = Duration::from_millis(100);
/// Between two requests to an address where no server listens.
const PAUSE: Duration = Duration::from_millis(20);
/// Unanswered requests in a row, after which an idle server counts as gone.
const GONE: u32 = 20;

/// What a server has said.
enum Heard {
    Answer(Answer),
    /// An answer over HTTP that is none of the application's, with this status.
    Foreign(u16),
    Nothing,
}

impl Client {
    /// Waits until the server answers, for up to `wait_ns`. A server that takes longer than from one
    /// request to the next answers an earlier one.
    ///
    /// # Errors
    /// It does not, or it is no server of Curtail's.
    pub fn greet(&mut self, wait_ns: u64) -> Result<(), Error> {
        let until = Instant::now() + Duration::from_nanos(wait_ns);
        let first = self.next_id;
        loop {
            // On a flow that has one in progress, another only waits for it.
            let is_busy = self.sockets[0].is_busy();
            let asked = if is_busy { Ok(()) } else { self.post(0) };
            let ids = first..self.next_id;
            match asked.and_then(|()| self.hear(ids, RETRY)) {
                Ok(Heard::Answer(_)) => return Ok(()),
                Ok(Heard::Foreign(status)) => return Err(self.not_ours(status)),
                Err(failure) if Instant::now() >= until => return Err(failure),
                Ok(Heard::Nothing) if Instant::now() >= until => {
                    let waited = curtail_workload::format_duration(wait_ns);
                    let url = self.url();
                    return Err(Error::new(format!("{url}: no answer within {waited}")));
                }
                Ok(Heard::Nothing) => {}
                // No server listens, and the kernel says so at once: it may be starting.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Sends a request of a class, without service of its own.
    fn post(&mut self, class: u16) -> Result<(), Error> {
        let id = self.next_id;
        self.next_id += 1;
        let random = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.wire.request((id, class, 0), random, &mut self.message);
        let Self { url, sockets, message, .. } = self;
        sockets[0].send(id, message).map(drop).map_err(|error| Self::failure(url, error))
    }

    /// Waits for the answer to one of these.
    fn hear(&mut self, ids: Range<u64>, within: Duration) -> Result<Heard, Error> {
        let until = Instant::now() + within;
        let Self { url, sockets, wire, buffer, .. } = self;
        let socket = &mut sockets[0];
        loop {
            let mut heard = Heard::Nothing;
            let mut take = |came: Came<'_>| {
                if let Some(status) = wire.foreign(&came) {
                    heard = Heard::Foreign(status);
                } else if let Some(answer) = wire.outcome(came).filter(|it| ids.contains(&it.id)) {
                    heard = Heard::Answer(answer);
                }
            };
            let outcome = socket.receive(buffer, &mut take);
            if !matches!(heard, Heard::Nothing) {
                // Whatever came after it: another server may end the connection.
                return Ok(heard);
            }
            outcome.map_err(|error| Self::failure(url, error))?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(heard);
            }
            if !socket.before_wait() {
                continue;
            }
            let Some(fd) = socket.poll_fd() else { return Ok(Heard::Nothing) };
            wait(&mut [fd], left)?;
        }
    }

    /// One request of a class, without service of its own, and its answer; `None`: none came.
    fn ask(&mut self, class: u16) -> Result<Option<Answer>, Error> {
        self.post(class)?;
        match self.hear(self.next_id - 1..self.next_id, RETRY)? {
            Heard::Answer(answer) => Ok(Some(answer)),
            Heard::Foreign(status) => Err(self.not_ours(status)),
            Heard::Nothing => Ok(None),
        }
    }

    fn not_ours(&self, status: u16) -> Error {
        Self::failure(
            &self.url,
            format!(
                "it answered {status} to a POST for --app, as no server of Curtail's does: for any web \
                 server, --method GET"
            ),
        )
    }

    /// What each class's service takes by the server's own measure, on the median, in nanoseconds.
    /// An idle server pre-empts no request, so nothing but service is in it. 0: it does not say.
    ///
    /// # Errors
    /// A request fails, or no answers come any more.
    pub fn idle_services(&mut self, classes: usize) -> Result<Vec<u32>, Error> {
        let mut services = Vec::new();
        for class in 0..classes {
            let mut times: Vec<u64> = Vec::new();
            let start = Instant::now();
            let mut unanswered = 0;
            while times.len() < ASKED && (times.is_empty() || start.elapsed() < AT_MOST) {
                match self.ask(class as u16)? {
                    Some(Answer { outcome: Outcome::Done, service_ns, .. }) => {
                        times.push(service_ns);
                        unanswered = 0;
                    }
                    Some(Answer { outcome: Outcome::Failed, .. }) => {
                        let url = self.url();
                        return Err(Error::new(format!("{url}: a request failed at the server")));
                    }
                    Some(_) | None => unanswered += 1,
                }
                if unanswered == GONE {
                    let url = self.url();
                    return Err(Error::new(format!("{url}: the server stopped answering")));
                }
            }
            times.sort_unstable();
            services.push(u32::try_from(times[times.len() / 2]).unwrap_or(u32::MAX));
        }
        Ok(services)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Body, Own, Url, Wire};
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_slow_server_answers_an_earlier_greeting() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("udp://{}", server.local_addr().unwrap())).unwrap();
        let body = [Body::Bytes(vec![0; 2])];
        let own = Own::new(&url, &body, Some("0:2".parse().unwrap()), 1, 0).unwrap();
        let mut client = Client::open(&url, 1, Wire::Own(Box::new(own)), 0).unwrap();
        let answers = std::thread::spawn(move || {
            let (mut greeting, mut later) = ([0; 2], [0; 2]);
            let (_, from) = server.recv_from(&mut greeting).unwrap();
            server.recv_from(&mut later).unwrap();
            assert_eq!((greeting, later), ([1, 0], [2, 0]));
            server.send_to(&greeting, from).unwrap();
        });
        client.greet(20_000_000_000).unwrap();
        answers.join().unwrap();
    }

    #[test]
    fn another_web_server_is_told_at_once() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/", server.local_addr().unwrap())).unwrap();
        let mut client = Client::open(&url, 1, Wire::Spin, 0).unwrap();
        let refuses = std::thread::spawn(move || {
            let (mut connection, _) = server.accept().unwrap();
            assert!(connection.read(&mut [0; 4096]).unwrap() > 0);
            connection.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let error = client.greet(20_000_000_000).unwrap_err().to_string();
        assert!(error.contains("answered 405"), "{error}");
        refuses.join().unwrap();
    }
}
