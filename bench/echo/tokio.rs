//! A task per connection on tokio's current-thread scheduler: `echo-tokio tcp|udp` prints its port
//! on 127.0.0.1 and sends back what it receives until it is killed.

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

async fn echo(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let length = connection.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..length]).await?;
    }
}

async fn tcp() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(echo(connection));
    }
}

async fn udp() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    println!("{}", socket.local_addr()?.port());
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await?;
        let _ = socket.send_to(&buffer[..length], from).await;
    }
}

fn main() -> io::Result<()> {
    let kind = std::env::args().nth(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // A task: `block_on`'s own future is scheduled otherwise.
    let served = match kind.as_deref() {
        Some("tcp") => runtime.block_on(runtime.spawn(tcp())),
        Some("udp") => runtime.block_on(runtime.spawn(udp())),
        _ => return Err(io::Error::other("usage: echo-tokio tcp|udp")),
    };
    served.map_err(io::Error::other)?
}
