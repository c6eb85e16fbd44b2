//! Streams of every family, as one type.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use curtail::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// On one kthread and on several, by epoll and by io_uring: most defects show on one of them only.
pub fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    for io in [curtail::Io::Epoll, curtail::Io::Uring] {
        for kthreads in [1, 2, 4] {
            let f = f.clone();
            curtail::Runtime::builder().kthreads(kthreads).io(io).run(f);
        }
    }
}

/// What streams of all families have.
pub trait Stream: Read + Write + Send {
    fn duplicate(&self) -> Box<dyn Stream>;
    fn stop(&self, how: Shutdown) -> io::Result<()>;
    fn close(&self);
    fn read_timeout(&self, timeout: Option<Duration>) -> Result<(), ErrorKind>;
    fn write_timeout(&self, timeout: Option<Duration>) -> Result<(), ErrorKind>;
}

macro_rules! stream {
    ($type:ident) => {
        impl Stream for $type {
            fn duplicate(&self) -> Box<dyn Stream> {
                Box::new(self.try_clone().unwrap())
            }
            fn stop(&self, how: Shutdown) -> io::Result<()> {
                self.shutdown(how)
            }
            fn close(&self) {
                $type::close(self);
            }
            fn read_timeout(&self, timeout: Option<Duration>) -> Result<(), ErrorKind> {
                self.set_read_timeout(timeout).map_err(|error| error.kind())?;
                assert_eq!($type::read_timeout(self).unwrap(), timeout);
                Ok(())
            }
            fn write_timeout(&self, timeout: Option<Duration>) -> Result<(), ErrorKind> {
                self.set_write_timeout(timeout).map_err(|error| error.kind())?;
                assert_eq!($type::write_timeout(self).unwrap(), timeout);
                Ok(())
            }
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);

/// Two ends of one connection.
pub struct Pair(pub Box<dyn Stream>, pub Box<dyn Stream>);

#[derive(Clone, Copy, Debug)]
pub enum Family {
    V4,
    V6,
    Unix,
}

/// All that this machine has.
pub fn families() -> Vec<Family> {
    let v6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let all = [Some(Family::V4), v6.then_some(Family::V6), Some(Family::Unix)];
    all.into_iter().flatten().collect()
}

impl Family {
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Connected by a listener, on threads.
    pub fn pair(self) -> Pair {
        match self {
            Self::V4 => tcp("127.0.0.1:0", |connect| curtail::spawn(connect).join().unwrap()),
            Self::V6 => tcp("[::1]:0", |connect| curtail::spawn(connect).join().unwrap()),
            Self::Unix => unix(|connect| curtail::spawn(connect).join().unwrap()),
        }
    }

    pub fn pair_of_plain_threads(self) -> Pair {
        match self {
            Self::V4 => tcp("127.0.0.1:0", |connect| std::thread::spawn(connect).join().unwrap()),
            Self::V6 => tcp("[::1]:0", |connect| std::thread::spawn(connect).join().unwrap()),
            Self::Unix => unix(|connect| std::thread::spawn(connect).join().unwrap()),
        }
    }
}

type Connect<S> = Box<dyn FnOnce() -> S + Send>;

fn tcp(address: &str, run: impl FnOnce(Connect<TcpStream>) -> TcpStream) -> Pair {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    let client = run(Box::new(move || TcpStream::connect(address).unwrap()));
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    assert_eq!(client.peer_addr().unwrap(), address);
    server.set_nodelay(true).unwrap();
    client.set_nodelay(true).unwrap();
    assert!(client.nodelay().unwrap());
    assert!(client.take_error().unwrap().is_none());
    Pair(Box::new(client), Box::new(server))
}

/// A path that no other test uses.
pub fn path() -> std::path::PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("curtail-sockets-{}-{number}", std::process::id()))
}

fn unix(run: impl FnOnce(Connect<UnixStream>) -> UnixStream) -> Pair {
    let path = path();
    let listener = UnixListener::bind(&path).unwrap();
    let to = path.clone();
    let client = run(Box::new(move || UnixStream::connect(to).unwrap()));
    let (server, peer) = listener.accept().unwrap();
    assert!(peer.is_unnamed());
    assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
    std::fs::remove_file(path).unwrap();
    Pair(Box::new(client), Box::new(server))
}
