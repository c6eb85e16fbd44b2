//! A TCP server to poll and clients that speak its frames.

use super::{Collect, LONG, loopback, poll_until};
use curtail_net::{Reply, Status, Tcp, TcpConfig, Transport};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub fn server(config: &TcpConfig) -> (Tcp, SocketAddr, Arc<dyn Reply>) {
    let tcp = Tcp::bind(&[loopback()], config).unwrap();
    let address = tcp.local_addrs()[0];
    let reply = tcp.reply();
    (tcp, address, reply)
}

pub fn client(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

pub fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

pub fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).unwrap();
    let mut payload = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut payload).unwrap();
    payload
}

/// The peer has closed: an end or a reset, and no more bytes.
pub fn assert_closed(stream: &mut TcpStream) {
    match stream.read(&mut [0; 16]) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
}

/// Polls until the peer's end has come to the client, and has no more bytes before it.
pub fn poll_until_closed(tcp: &mut Tcp, client: &mut TcpStream) {
    client.set_nonblocking(true).unwrap();
    poll_until(tcp, &mut Collect::up_to(1), |_, _, _| match client.peek(&mut [0; 1]) {
        Ok(count) => {
            assert_eq!(count, 0);
            true
        }
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    });
    client.set_nonblocking(false).unwrap();
    assert_closed(client);
}

/// Closes it and sees that soon nothing is left: no connection, and no memory.
pub fn assert_ends(mut tcp: Tcp) {
    tcp.close();
    poll_until(&mut tcp, &mut Collect::default(), |_, _, status| status == Status::Closed);
    assert_eq!(super::counter(&tcp, "tcp_memory_bytes"), 0);
}

/// Closes with a reset.
pub fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}
