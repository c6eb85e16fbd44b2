//! HTTP for [the open-loop client](crate::ask): where answers end.

use crate::ask::{self, Answered, Protocol, Way};
use curtail_workload::Request;
use std::io;
use std::time::Duration;

/// Of an answer, what has come.
#[derive(Debug, Default)]
pub struct Http {
    received: Vec<u8>,
}

impl Protocol for Http {
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.received.extend_from_slice(bytes);
        let ends = complete(&self.received)?;
        if ends {
            self.received.clear();
        }
        Ok(usize::from(ends))
    }
}

/// Whether these bytes are a whole answer, and one that says 200.
fn complete(bytes: &[u8]) -> Result<bool, String> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&bytes[..head]);
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(format!("answered `{status}`"));
    }
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or("an answer without a length")?;
    Ok(bytes.len() >= head + 4 + length)
}

/// Asks for all that is due, a class's requests by its path, and waits `patience` for the last of them.
/// Each has a connection to itself while it is under way.
///
/// # Errors
/// Where a connection fails, or the server answers something else than 200.
pub fn offer(
    port: u16,
    paths: &[String],
    requests: &[Request],
    patience: Duration,
) -> io::Result<Answered> {
    let message = |path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let messages: Vec<_> = paths.iter().map(message).collect();
    ask::offer::<Http>(port, &Way::new(&messages, patience), requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn answers_are_whole_or_not() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert!((0..answer.len()).all(|end| complete(&answer[..end]) == Ok(false)));
        assert_eq!(complete(answer), Ok(true));
        let bad = complete(b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
        assert_eq!(bad, Err("answered `HTTP/1.1 503 Service Unavailable`".to_owned()));
        assert!(complete(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    /// A server that answers each line `GET …` on each connection.
    fn serve(listener: &TcpListener) {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // The client may be gone before its last answer.
                    if line.starts_with("GET") {
                        let _ = out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                    }
                }
            });
        }
    }

    #[test]
    fn all_requests_are_answered_and_count_from_when_they_were_due() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || serve(&listener));
        let request = |n: u64| Request { at_ns: n * 50_000, class: (n % 2) as u16, service_ns: 0 };
        let due: Vec<_> = (0..200).map(request).collect();
        let paths = ["/a".to_owned(), "/b".to_owned()];
        let found = offer(port, &paths, &due, Duration::from_secs(20)).unwrap();
        assert!(found.sojourn_ns.iter().all(|ns| ns.is_some_and(|ns| ns > 0)));
        assert_eq!(found.no_connection, 0);
    }
}
