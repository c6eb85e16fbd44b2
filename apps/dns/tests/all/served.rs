//! The server, over sockets.

use crate::shown::{example, query, shown};
use curtail::{Handle, Server, Spec};
use dns::Dns;
use domain::base::iana::Rtype;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

struct Running {
    udp: SocketAddr,
    tcp: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<curtail::Report>>,
}

impl Running {
    fn with(policy: &str) -> Self {
        let transport = curtail::net::open("udp://127.0.0.1:0,tcp://127.0.0.1:0?prefix=u16be");
        let transport = transport.unwrap();
        let [udp, tcp] = transport.local_addrs()[..] else { panic!("two addresses") };
        let server = Server::builder(Dns::new(example()))
            .policy(Spec::preset(policy).unwrap())
            .workers(1)
            .transport(transport)
            .build()
            .unwrap();
        let handle = server.handle();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self { udp, tcp, handle, thread }
    }

    fn datagram(&self, packet: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.send_to(packet, self.udp).unwrap();
        let mut answer = vec![0; 2_000];
        let (length, _) = socket.recv_from(&mut answer).unwrap();
        answer.truncate(length);
        answer
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tcp).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    fn end(mut self) -> curtail::Report {
        self.handle.shutdown();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.shutdown();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    message
}

fn serves(policy: &str) {
    let server = Running::with(policy);
    let www = query("www.example.com", Rtype::A, None);
    let big = query("big.example.com", Rtype::TXT, Some(4_096));
    let right = "NOERROR aa\nan www.example.com. 300 A 192.0.2.80\n\
                 an www.example.com. 300 A 192.0.2.81\n";
    assert_eq!(shown(&server.datagram(&www)), right);
    assert_eq!(shown(&server.datagram(&big)), "NOERROR aa tc\n");

    // Two on one connection, byte by byte; then FIN: both are answered.
    let mut stream = server.connect();
    for byte in [framed(&big), framed(&www)].concat() {
        stream.write_all(&[byte]).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = [receive(&mut stream), receive(&mut stream)].map(|answer| shown(&answer));
    answers.sort_by_key(String::len);
    assert_eq!(answers[0], right);
    assert_eq!(answers[1].lines().count(), 41, "forty texts");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);

    // What is no query has no answer, and harms no other.
    let mut stream = server.connect();
    let none = [framed(b""), framed(b"short"), framed(&[0xff; 40]), framed(&www)].concat();
    stream.write_all(&none).unwrap();
    assert_eq!(shown(&receive(&mut stream)), right);
    assert_eq!(shown(&server.datagram(&www)), right);
    let report = server.end();
    assert_eq!(report.classes[0].failed, 0);
}

#[test]
fn a_server_with_a_dispatcher() {
    serves("tq");
}

#[test]
fn a_server_without_a_dispatcher() {
    serves("shenango");
}
