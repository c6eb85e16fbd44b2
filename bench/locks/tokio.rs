//! `locks-tokio LOCK`: as `server.rs`, a task per connection; `mutex` and `rwlock` are tokio's.

#[allow(dead_code)]
#[path = "server.rs"]
mod server;

// What `server.rs` would have of threads is not used; its table and its work are.
mod rt {
    pub use std::net::{TcpListener, TcpStream};
    pub use std::sync::{Mutex, RwLock};
    pub use std::thread::spawn;
}

use server::{Table, work};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

enum Locked {
    Mutex(tokio::sync::Mutex<Table>),
    RwLock(tokio::sync::RwLock<Table>),
    Std(std::sync::RwLock<Table>),
    ParkingLot(parking_lot::RwLock<Table>),
    Free(Table),
}

impl Locked {
    fn new(kind: &str) -> Self {
        let table: Table = (0..1_000).map(|key| (key, key * key)).collect();
        match kind {
            "mutex" => Self::Mutex(tokio::sync::Mutex::new(table)),
            "rwlock" => Self::RwLock(tokio::sync::RwLock::new(table)),
            "std" => Self::Std(std::sync::RwLock::new(table)),
            "parking_lot" => Self::ParkingLot(parking_lot::RwLock::new(table)),
            "free" => Self::Free(table),
            other => panic!("no lock {other}"),
        }
    }

    async fn read(&self, steps: u64) -> u64 {
        let look = |table: &Table| work(steps, table[&(steps % 1_000)]);
        match self {
            Self::Mutex(table) => look(&*table.lock().await),
            Self::RwLock(table) => look(&*table.read().await),
            Self::Std(table) => look(&table.read().unwrap()),
            Self::ParkingLot(table) => look(&table.read()),
            Self::Free(table) => look(table),
        }
    }
}

async fn serve(mut stream: TcpStream, table: Arc<Locked>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (input, mut out) = stream.split();
    let mut input = BufReader::new(input);
    let mut line = String::new();
    while input.read_line(&mut line).await? > 0 {
        let steps = line.trim().parse().map_err(io::Error::other)?;
        let value = table.read(steps).await >> 1;
        out.write_all(format!(":{value}\r\n").as_bytes()).await?;
        line.clear();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let kind = std::env::args().nth(1).expect("a lock");
    let table = Arc::new(Locked::new(&kind));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&table)));
    }
}
