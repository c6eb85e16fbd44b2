// A thread per connection. A request is a line, how many steps to compute; they are computed while
// the table is locked for reading, and the answer is their result, as RESP has numbers.
// `crate::rt` is what threads, sockets and locks are: `std`'s, or Curtail's.

use crate::rt::{self, TcpListener, TcpStream};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;

pub type Table = HashMap<u64, u64>;

/// Work of so many steps, alike in every program and in the client.
pub fn work(steps: u64, seed: u64) -> u64 {
    let mut x = black_box(steps ^ seed) | 1;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// A table behind some lock, or none. Each reads and computes while it holds it.
pub enum Locked {
    Mutex(rt::Mutex<Table>),
    RwLock(rt::RwLock<Table>),
    Std(std::sync::RwLock<Table>),
    ParkingLot(parking_lot::RwLock<Table>),
    Free(Table),
}

impl Locked {
    pub fn new(kind: &str) -> Self {
        let table: Table = (0..1_000).map(|key| (key, key * key)).collect();
        match kind {
            "mutex" => Self::Mutex(rt::Mutex::new(table)),
            "rwlock" => Self::RwLock(rt::RwLock::new(table)),
            "std" => Self::Std(std::sync::RwLock::new(table)),
            "parking_lot" => Self::ParkingLot(parking_lot::RwLock::new(table)),
            "free" => Self::Free(table),
            other => panic!("no lock {other}"),
        }
    }

    fn read(&self, steps: u64) -> u64 {
        let look = |table: &Table| work(steps, table[&(steps % 1_000)]);
        match self {
            Self::Mutex(table) => look(&table.lock().unwrap()),
            Self::RwLock(table) => look(&table.read().unwrap()),
            Self::Std(table) => look(&table.read().unwrap()),
            Self::ParkingLot(table) => look(&table.read()),
            Self::Free(table) => look(table),
        }
    }
}

fn serve(stream: TcpStream, table: &Locked) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let steps = line.trim().parse().map_err(io::Error::other)?;
        let value = table.read(steps) >> 1;
        out.write_all(format!(":{value}\r\n").as_bytes())?;
        line.clear();
    }
    Ok(())
}

/// `LOCK` is the first argument. Prints the port.
pub fn run(kind: &str) -> io::Result<()> {
    let table = Arc::new(Locked::new(kind));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept()?;
        let table = Arc::clone(&table);
        drop(rt::spawn(move || serve(stream, &table)));
    }
}
