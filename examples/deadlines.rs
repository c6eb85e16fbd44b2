//! Requests that say within which time they are wanted. One that is late stops by itself.
#![forbid(unsafe_code)]

use curtail::{App, Response, Server, WorkerId};
use std::error::Error;
use std::net::UdpSocket;
use std::time::Duration;

/// A request is `WITHIN_MS STEPS`.
struct Steps;

fn parse(request: &[u8]) -> Option<(u64, u64)> {
    let (within, steps) = std::str::from_utf8(request).ok()?.split_once(' ')?;
    Some((within.parse().ok()?, steps.parse().ok()?))
}

impl App for Steps {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        parse(request).map(|(within_ms, _)| Duration::from_millis(within_ms))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let steps = parse(request).map_or(0, |(_, steps)| steps);
        let mut sum = 0_u64;
        for step in 0..steps {
            if step.is_multiple_of(1_024) && curtail::check().is_err() {
                response.write(b"late");
                return;
            }
            sum = std::hint::black_box(sum.wrapping_add(step));
        }
        response.write(sum.to_string().as_bytes());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let transport = curtail::net::open("udp://127.0.0.1:0")?;
    let address = transport.local_addrs()[0];
    let server = Server::builder(Steps).transport(transport).build()?;
    let handle = server.handle();
    let running = std::thread::spawn(move || server.run());

    let client = UdpSocket::bind("127.0.0.1:0")?;
    for request in ["60000 100", "20 9000000000000000000"] {
        client.send_to(request.as_bytes(), address)?;
        let mut bytes = [0; 2_048];
        let length = client.recv(&mut bytes)?;
        println!("{request}: {}", String::from_utf8_lossy(&bytes[..length]));
    }

    handle.shutdown();
    running.join().expect("the dispatcher does not panic")?;
    Ok(())
}
