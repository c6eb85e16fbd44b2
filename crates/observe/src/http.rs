//! Prometheus's endpoint: one thread that answers every request with the metrics.

use crate::shown::metrics;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A peer that is slower is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// Of a request's head.
const MOST_BYTES: usize = 8 << 10;

/// Serves the metrics of this process over HTTP at that address, for as long as the process lives.
/// Returns the address it listens at, with the port that the kernel chose for 0. Every program that
/// reaches the address can read them.
///
/// # Errors
/// What the system says: the address is taken, or there is no thread.
pub fn metrics_at(address: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let local = listener.local_addr()?;
    let wait = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => drop(answer(stream)),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(wait)?;
    Ok(local)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MOST_BYTES {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&part[..length]),
        }
    }
    let text = metrics();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; \
         charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}
