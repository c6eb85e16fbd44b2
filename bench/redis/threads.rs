//! `redis-threads KEYS`: `server.rs` on the kernel's threads.

#[path = "resp.rs"]
mod resp;
#[path = "server.rs"]
mod server;

mod rt {
    pub use std::net::{TcpListener, TcpStream};
    pub use std::sync::RwLock;
    pub use std::thread::spawn;
}

fn main() -> std::io::Result<()> {
    let keys = std::env::args().nth(1).expect("how many keys");
    server::run(keys.parse().expect("a number"))
}
