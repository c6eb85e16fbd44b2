//! Runs against servers that treat their connections badly.

use super::*;
use curtail_workload::{Arrivals, Mix, Until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const SECOND: u64 = 1_000_000_000;
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curtail\r\n\r\n";

fn url(address: SocketAddr) -> Url {
    Url::parse(&format!("http://{address}/")).unwrap()
}

fn get(url: &Url) -> Wire {
    let request = WebRequest { method: "GET".into(), ..WebRequest::default() };
    Wire::Plain(Box::new(Plain::web(url, &request, 1, 0).unwrap()))
}

/// A request each 5 ms, for half a second.
fn plan() -> Plan {
    let duration_ns = SECOND / 2;
    let mix = Mix::parse("get:1us:1").unwrap();
    let requests = Requests::new(&mix, Arrivals::Uniform, 200.0, 1, Until::Time(duration_ns));
    let (services, timeout_ns) = (vec![0], SECOND * 3 / 10);
    Plan { requests, services, seed: 1, duration_ns, warmup_ns: 0, timeout_ns, spin: false }
}

/// Answers everything until the client goes.
fn serve(mut connection: TcpStream) {
    let requests = BufReader::new(connection.try_clone().unwrap());
    for line in requests.lines().map_while(Result::ok) {
        if line.is_empty() {
            let _ = connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    }
}

#[test]
fn a_connection_that_does_not_come_about_holds_up_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = url(address);
    let server = std::thread::spawn(move || {
        let (mut ends, _) = listener.accept().unwrap();
        let (stays, _) = listener.accept().unwrap();
        let mut request = vec![0; GET.len()];
        ends.read_exact(&mut request).unwrap();
        // One that is not accepted takes all the room: what the client begins comes to no end.
        rustix::net::listen(&listener, 0).unwrap();
        let _fills = TcpStream::connect(address).unwrap();
        ends.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
        drop(ends);
        serve(stays);
    });
    let mut client = Client::open(&url, 2, get(&url), SECOND).unwrap();
    let seen = client.drive(plan()).unwrap();
    drop(client);
    server.join().unwrap();
    let (tally, late_ns) = (&seen.tally, seen.lateness.percentile_ns(50.0));
    // One waits for its connection to the end, and all others are sent on the one that is there.
    assert_eq!((tally.offered > 90, tally.lost(), tally.failed), (true, 1, 0));
    assert!(late_ns < SECOND / 10, "late by {late_ns} ns");
}
