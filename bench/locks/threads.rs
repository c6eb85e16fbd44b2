//! `locks-threads LOCK`: `server.rs` on the kernel's threads, with `std`'s locks.

#[path = "server.rs"]
mod server;

mod rt {
    pub use std::net::{TcpListener, TcpStream};
    pub use std::sync::{Mutex, RwLock};
    pub use std::thread::spawn;
}

fn main() -> std::io::Result<()> {
    server::run(&std::env::args().nth(1).expect("a lock"))
}
