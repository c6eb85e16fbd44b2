//! State that all requests share: a map behind a lock of Curtail's. A request that waits for the lock
//! leaves its worker to others. One whose quantum ends while it has the lock goes on for a grace of one
//! quantum, 20 µs at most, and yields as it gives the lock back; what takes longer is pre-empted.
#![forbid(unsafe_code)]

use curtail::sync::RwLock;
use curtail::{App, Response, Server, WorkerId};
use std::collections::HashMap;
use std::error::Error;

/// `put KEY VALUE`, `get KEY`.
#[derive(Default)]
struct Store {
    map: RwLock<HashMap<String, String>>,
}

impl Store {
    fn answer(&self, request: &str) -> String {
        let words: Vec<&str> = request.split_whitespace().collect();
        match words[..] {
            ["put", key, value] => {
                let mut map = self.map.write().expect("no handler panics with it");
                map.insert(key.to_owned(), value.to_owned());
                "done".to_owned()
            }
            ["get", key] => {
                let map = self.map.read().expect("no handler panics with it");
                map.get(key).cloned().unwrap_or_else(|| "nothing".to_owned())
            }
            _ => "put KEY VALUE, or get KEY".to_owned(),
        }
    }
}

impl App for Store {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let request = String::from_utf8_lossy(request);
        response.write(self.answer(&request).as_bytes());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // A server inside of the program that asks it.
    let (local, client) = curtail::net::Local::new(64)?;
    let server = Server::builder(Store::default()).transport(Box::new(local)).build()?;
    let handle = server.handle();
    let running = std::thread::spawn(move || server.run());

    for request in ["get colour", "put colour blue", "get colour"] {
        let answer = client.call(request.as_bytes().to_vec())?;
        println!("{request}: {}", String::from_utf8_lossy(&answer));
    }

    handle.shutdown();
    running.join().expect("the dispatcher does not panic")?;
    Ok(())
}
