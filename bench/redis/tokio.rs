//! `redis-tokio KEYS`: as `server.rs`, a task per connection, the map behind `std`'s lock, which is
//! held over no await.

#[path = "resp.rs"]
mod resp;

use resp::{Command, bulk, parse};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, RwLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

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

async fn serve(mut stream: TcpStream, store: Arc<Store>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut held, mut out) = (Vec::new(), Vec::new());
    while stream.read_buf(&mut held).await? > 0 {
        let mut rest = &held[..];
        loop {
            let before = rest;
            match parse(&mut rest) {
                Ok(Some(command)) => answer(&store, command, &mut out),
                // A part of one: the rest is to come.
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    rest = before;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let taken = held.len() - rest.len();
        held.drain(..taken);
        stream.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let count = std::env::args().nth(1).expect("how many keys");
    let count: usize = count.parse().expect("a number");
    let filled = (0..count).map(|n| (format!("key:{n}").into(), format!("value:{n}").into()));
    let store: Arc<Store> = Arc::new(RwLock::new(filled.collect()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&store)));
    }
}
