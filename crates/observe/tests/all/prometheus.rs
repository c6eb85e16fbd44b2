//! The endpoint of the metrics: it serves whatever other clients do.

use curtail_observe::metrics_at;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);
const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream
}

/// What comes until the end, of which there is one: head and body.
fn all(stream: &mut TcpStream) -> (String, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    (head.to_owned(), body.to_owned())
}

fn assert_served(stream: &mut TcpStream) {
    let (head, body) = all(stream);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
}

#[test]
fn it_serves_while_another_client_trickles() {
    let address = metrics_at("127.0.0.1:0").unwrap();
    let mut slow = connect(address);
    // After each byte of the slow one, which is served in the end.
    for (count, byte) in GET.bytes().enumerate() {
        slow.write_all(&[byte]).unwrap();
        if count % 8 == 0 {
            let mut other = connect(address);
            other.write_all(GET.as_bytes()).unwrap();
            assert_served(&mut other);
        }
    }
    assert_served(&mut slow);
}

#[test]
fn it_serves_while_hundreds_say_nothing_or_take_nothing() {
    let address = metrics_at("127.0.0.1:0").unwrap();
    let mut silent: Vec<_> = (0..300).map(|_| connect(address)).collect();
    silent.iter_mut().skip(1).for_each(|one| {
        let _ = one.write_all(&GET.as_bytes()[..GET.len() / 2]);
    });
    let mut other = connect(address);
    other.write_all(GET.as_bytes()).unwrap();
    assert_served(&mut other);
    // The one that came first has made room.
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
}

#[test]
fn its_answers_are_those_of_http() {
    let address = metrics_at("127.0.0.1:0").unwrap();
    for (sent, status) in [
        (GET, 200),
        ("GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        ("GET /metrics HTTP/1.0\r\n\r\n", 200),
        ("\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nno metric", 413),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("\x16\x03\x01", 400),
        (&format!("GET / HTTP/1.1\r\nHost: x\r\na: {}\r\n\r\n", "b".repeat(100_000)), 431),
    ] {
        let mut stream = connect(address);
        let _ = stream.write_all(sent.as_bytes());
        // It has sent all, and reads still.
        let _ = stream.shutdown(Shutdown::Write);
        let (head, body) = all(&mut stream);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sent:?}: {head}");
        assert!(head.contains("\r\nDate: ") && head.contains("\r\nConnection: close"), "{head}");
        assert_eq!(body.is_empty(), status != 200 || sent.contains("HEAD"), "{sent:?}");
        assert_eq!(head.contains("Allow: GET, HEAD"), status == 405, "{head}");
    }
}
