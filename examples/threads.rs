//! A program of threads: an echo server with a thread for each connection, and its clients.
#![forbid(unsafe_code)]

use curtail::net::{TcpListener, TcpStream};
use std::io::{self, Read, Write};

/// Sends back what it receives, to the end.
fn echo(stream: &TcpStream) -> io::Result<u64> {
    io::copy(&mut &*stream, &mut &*stream)
}

fn main() -> io::Result<()> {
    curtail::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        curtail::scope(|scope| {
            let server = scope.spawn(|| -> io::Result<()> {
                for _ in 0..100 {
                    let (stream, _) = listener.accept()?;
                    scope.spawn(move || echo(&stream));
                }
                Ok(())
            });
            let clients: Vec<_> = (0..100)
                .map(|n| {
                    scope.spawn(move || -> io::Result<usize> {
                        let mut stream = TcpStream::connect(address)?;
                        write!(stream, "hello from {n}")?;
                        stream.shutdown(std::net::Shutdown::Write)?;
                        let mut answer = String::new();
                        stream.read_to_string(&mut answer)?;
                        Ok(usize::from(answer == format!("hello from {n}")))
                    })
                })
                .collect();
            let mut answered = 0;
            for client in clients {
                answered += client.join().expect("no client panics")?;
            }
            server.join().expect("it does not panic")?;
            println!("{answered} of 100 answered");
            Ok(())
        })
    })
}
