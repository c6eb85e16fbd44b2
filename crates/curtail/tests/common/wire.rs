//! What clients of TCP servers need: connections and frames.

use super::STUCK;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};

/// Whose reads and writes end, at the latest, when the test has failed.
pub fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.set_write_timeout(Some(STUCK)).unwrap();
    stream
}

pub fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

/// The payload of the next frame.
pub fn receive(stream: &mut impl Read) -> Vec<u8> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).unwrap();
    let mut payload = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut payload).unwrap();
    payload
}
