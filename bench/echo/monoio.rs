//! A task per connection on monoio, whose sockets are io_uring's alone: `echo-monoio tcp|udp` prints its
//! port on 127.0.0.1 and sends back what it receives until it is killed.

use monoio::buf::IoBuf;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::udp::UdpSocket;
use monoio::net::{TcpListener, TcpStream};
use std::io;

async fn echo(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, back) = connection.read(buffer).await;
        let length = length?;
        if length == 0 {
            return Ok(());
        }
        let (written, slice) = connection.write_all(back.slice(..length)).await;
        written?;
        buffer = slice.into_inner();
    }
}

async fn tcp() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (connection, _) = listener.accept().await?;
        monoio::spawn(echo(connection));
    }
}

async fn udp() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    println!("{}", socket.local_addr()?.port());
    let mut buffer = vec![0; 65_536];
    loop {
        let (received, back) = socket.recv_from(buffer).await;
        let (length, from) = received?;
        let (_, slice) = socket.send_to(back.slice(..length), from).await;
        buffer = slice.into_inner();
    }
}

fn main() -> io::Result<()> {
    let kind = std::env::args().nth(1);
    let mut runtime =
        monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().with_entries(4_096).build()?;
    match kind.as_deref() {
        Some("tcp") => runtime.block_on(tcp()),
        Some("udp") => runtime.block_on(udp()),
        _ => Err(io::Error::other("usage: echo-monoio tcp|udp")),
    }
}
