//! `locks-curtail LOCK HOW KTHREADS`: `server.rs` on Curtail's threads. HOW is what becomes of a
//! quantum that ends inside of a lock, `grace`, `ban` or `none`; or `light`: the threads are.

#[path = "server.rs"]
mod server;

mod rt {
    pub use curtail::net::{TcpListener, TcpStream};
    pub use curtail::spawn;
    pub use curtail::sync::{Mutex, RwLock};
}

use curtail::Grace;
use std::io;
use std::time::Duration;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [lock, how, kthreads] = &args[..] else {
        return Err(io::Error::other("usage: locks-curtail LOCK grace|ban|none|light KTHREADS"));
    };
    let grace = match how.as_str() {
        "ban" => Grace::Ban,
        "none" => Grace::None,
        _ => Grace::default(),
    };
    let kthreads = kthreads.parse().map_err(io::Error::other)?;
    let runtime = curtail::Runtime::builder().kthreads(kthreads).lock_grace(grace);
    // Light threads do not move to another kthread.
    let runtime = if how == "light" { runtime.light() } else { runtime };
    let lock = lock.clone();
    runtime.quantum(Duration::from_micros(10)).run(move || server::run(&lock))
}
