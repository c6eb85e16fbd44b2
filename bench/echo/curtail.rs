//! A thread of Curtail's per connection, with blocking calls: `echo-curtail tcp|udp` prints its port
//! on 127.0.0.1 and sends back what it receives until it is killed. By the name of
//! `echo-curtail_uring` it does so by io_uring.

use curtail::net::{TcpListener, TcpStream, UdpSocket};
use std::io::{self, Read, Write};

fn echo(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let length = connection.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..length])?;
    }
}

fn tcp() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (connection, _) = listener.accept()?;
        drop(curtail::spawn(move || echo(connection)));
    }
}

fn udp() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    println!("{}", socket.local_addr()?.port());
    let mut buffer = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        let _ = socket.send_to(&buffer[..length], from);
    }
}

fn main() -> io::Result<()> {
    let kind = std::env::args().nth(1);
    let serve = match kind.as_deref() {
        Some("tcp") => tcp,
        Some("udp") => udp,
        _ => return Err(io::Error::other("usage: echo-curtail tcp|udp")),
    };
    // One program under two names.
    let name = std::env::args().next().unwrap_or_default();
    let io = if name.ends_with("uring") { curtail::Io::Uring } else { curtail::Io::Epoll };
    curtail::Runtime::builder().kthreads(1).io(io).run(serve)
}
