//! `redis-curtail KEYS KTHREADS [grace|ban|none]`: `server.rs` on Curtail's threads.

#[path = "resp.rs"]
mod resp;
#[path = "server.rs"]
mod server;

mod rt {
    pub use curtail::net::{TcpListener, TcpStream};
    pub use curtail::spawn;
    pub use curtail::sync::RwLock;
}

use curtail::Grace;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args[at].parse::<usize>().expect("a number");
    let (keys, kthreads) = (number(0), number(1));
    let grace = match args.get(2).map(String::as_str) {
        Some("ban") => Grace::Ban,
        Some("none") => Grace::None,
        _ => Grace::default(),
    };
    let runtime = curtail::Runtime::builder().kthreads(kthreads).lock_grace(grace);
    runtime.quantum(std::time::Duration::from_micros(20)).run(move || server::run(keys))
}
