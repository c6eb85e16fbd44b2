//! Opening transports from URLs.

use crate::common;

use common::{Collect, Echo, LONG, poll_requests};
use curtail_net::{OpenError, Reason, open};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

fn reason(url: &str) -> Reason {
    match open(url) {
        Err(OpenError::Url { reason, .. }) => reason,
        Err(other) => panic!("{url}: {other}"),
        Ok(_) => panic!("{url} was accepted"),
    }
}

#[test]
fn good_urls() {
    let every_tcp_option = "tcp://127.0.0.1:0?max=1m&out=64k&connections=10&burst=2&backlog=5\
                            &in=2m&memory=64m&stall=5s&idle=30s&keepalive=20s\
                            &finwait=50ms&linger=100ms&fin=cancel&prefix=u16be";
    for url in
        ["udp://127.0.0.1:0", "udp://127.0.0.1:0?max=9000&rcvbuf=1m&requests=64k", every_tcp_option]
    {
        let transport = open(url).unwrap();
        let address = transport.local_addrs()[0];
        assert_ne!(address.port(), 0);
        assert_eq!(transport.describe(), format!("{}://{address}", &url[..3]));
    }
    let named = open("tcp://localhost:0").unwrap().local_addrs()[0];
    assert!(named.ip().is_loopback(), "{named}");
    assert!(open("tcp://127.0.0.1:0?idle=off&stall=off&keepalive=off&linger=0s").is_ok());
}

#[test]
fn bad_urls_say_what_is_wrong() {
    for url in ["", "udp", "127.0.0.1:80", "https://127.0.0.1:80", "UDP://127.0.0.1:80"] {
        assert_eq!(reason(url), Reason::Scheme, "{url}");
    }
    for address in [
        "",
        ":80",
        "localhost",
        "localhost:x",
        "127.0.0.1",
        "::1:80",
        "127.0.0.1:99999",
        "1.2.3.4:5/x",
    ] {
        assert_eq!(reason(&format!("tcp://{address}")), Reason::Address(address.to_owned()));
    }
    assert!(matches!(reason("udp://127.0.0.1:0?burst=1"), Reason::Option { .. }));
    assert!(matches!(reason("tcp://127.0.0.1:0?rcvbuf=1"), Reason::Option { .. }));
    assert!(matches!(reason("http://127.0.0.1:0?prefix=u16be"), Reason::Option { .. }));
    for option in [
        "max",
        "max=",
        "max=k",
        "max=-1",
        "max=+1",
        "max=1g",
        "idle=5",
        "linger=0",
        "idle=0",
        "linger=s",
        "fin=off",
        "prefix=u8",
    ] {
        let url = format!("tcp://127.0.0.1:0?{option}");
        assert!(matches!(reason(&url), Reason::Value { .. }), "{url}");
    }
    for url in ["unix://", "unix://relative", "http+unix://x"] {
        assert!(matches!(reason(url), Reason::File(_)), "{url}");
    }
    assert_eq!(reason("http://127.0.0.1:0,tcp://127.0.0.1:0"), Reason::Mixed);
    assert_eq!(reason("udp://127.0.0.1:0,http://127.0.0.1:0"), Reason::Mixed);
    let twice = "tcp://127.0.0.1:0?max=1k,tcp://127.0.0.1:0?max=2k";
    assert_eq!(reason(twice), Reason::Conflict("max".to_owned()));
    let error = open("udp://127.0.0.1:0?max=1m").err().unwrap();
    assert_eq!(error.to_string(), "largest datagram is 1048576, not within 1..=65535");
    let error = open("udp://127.0.0.1:0?max=99999999999999m").err().unwrap();
    assert!(matches!(error, OpenError::Url { reason: Reason::Value { .. }, .. }), "{error}");
}

#[test]
fn an_address_in_use_is_named() {
    let first = open("tcp://127.0.0.1:0").unwrap();
    let error = open(&first.describe()).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(&first.local_addrs()[0].to_string()));
}

#[test]
fn a_list_is_one_transport() {
    let mut transport =
        open("udp://127.0.0.1:0?max=100, tcp://127.0.0.1:0, udp://127.0.0.1:0?max=100").unwrap();
    let addresses = transport.local_addrs();
    assert_eq!(addresses.len(), 3, "the datagram ones first");
    let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagram.set_read_timeout(Some(LONG)).unwrap();
    let mut into = Collect::up_to(10);
    for (index, address) in addresses[..2].iter().enumerate() {
        datagram.send_to(&[index as u8], address).unwrap();
        poll_requests(&mut transport, &mut into, index + 1);
    }
    let echo = Echo::start(transport);
    let mut stream = TcpStream::connect(addresses[2]).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    for round in 0..100 {
        let frame = [1, 0, 0, 0, round];
        stream.write_all(&frame).unwrap();
        datagram.send_to(&[round], addresses[usize::from(round % 2)]).unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, frame);
        let mut answer = [0; 9];
        let (count, from) = datagram.recv_from(&mut answer).unwrap();
        assert_eq!((&answer[..count], from), (&[round][..], addresses[usize::from(round % 2)]));
    }
    drop(stream);
    let (transport, malformed) = echo.stop();
    assert_eq!((transport.reply().dropped(), malformed), (0, 0));
}
