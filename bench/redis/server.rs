// A small Redis, as one would write it on a first day: a thread per connection, one map behind one
// lock. `GET`, `SET`, `KEYS PATTERN` (`*` at its end or nowhere), `PING`.
// `crate::rt` is what threads, sockets and locks are: `std`'s, or Curtail's.

use crate::resp::{Command, bulk, parse};
use crate::rt::{self, RwLock, TcpListener, TcpStream};
use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::sync::Arc;

type Store = RwLock<HashMap<Vec<u8>, Vec<u8>>>;

fn keys(store: &Store, pattern: &[u8], out: &mut Vec<u8>) {
    let store = store.read().unwrap();
    let begin = pattern.strip_suffix(b"*");
    let matches = |key: &&Vec<u8>| match begin {
        Some(begin) => key.starts_with(begin),
        None => key.as_slice() == pattern,
    };
    let found: Vec<&Vec<u8>> = store.keys().filter(matches).collect();
    out.extend_from_slice(format!("*{}\r\n", found.len()).as_bytes());
    for key in found {
        bulk(key, out);
    }
}

fn answer(store: &Store, command: Command, out: &mut Vec<u8>) {
    match command {
        Command::Ping => out.extend_from_slice(b"+PONG\r\n"),
        Command::Get(key) => match store.read().unwrap().get(&key) {
            Some(value) => bulk(value, out),
            None => out.extend_from_slice(b"$-1\r\n"),
        },
        Command::Set(key, value) => {
            store.write().unwrap().insert(key, value);
            out.extend_from_slice(b"+OK\r\n");
        }
        Command::Keys(pattern) => keys(store, &pattern, out),
        Command::Unknown(name) => {
            out.extend_from_slice(format!("-ERR unknown command '{name}'\r\n").as_bytes());
        }
    }
}

fn serve(stream: TcpStream, store: &Store) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream_out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let mut out = Vec::new();
    while let Some(command) = parse(&mut input)? {
        answer(store, command, &mut out);
        // What was sent together is answered together.
        if input.buffer().is_empty() {
            stream_out.write_all(&out)?;
            out.clear();
        }
    }
    Ok(())
}

/// With this many keys. Prints the port.
pub fn run(count: usize) -> io::Result<()> {
    let filled = (0..count).map(|n| (format!("key:{n}").into(), format!("value:{n}").into()));
    let store: Arc<Store> = Arc::new(RwLock::new(filled.collect()));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept()?;
        let store = Arc::clone(&store);
        drop(rt::spawn(move || serve(stream, &store)));
    }
}
