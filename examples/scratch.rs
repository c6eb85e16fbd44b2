//! Scratch memory: a buffer that each request in progress has for itself, and the next one gets again.
//! A `RefCell` in `Worker` would be found borrowed by a request that was pre-empted.
#![forbid(unsafe_code)]

use curtail::{App, Response, Scratch, Server, WorkerId};
use std::error::Error;

/// Sorts the letters of a text.
struct Sorter;

impl App for Sorter {
    type Worker = Scratch<Vec<char>>;

    fn setup_worker(&self, _: WorkerId) -> Scratch<Vec<char>> {
        Scratch::new(|| Vec::with_capacity(1_024)).reset(|letters| {
            letters.clear();
            // One that has grown large is freed.
            letters.capacity() <= 64 << 10
        })
    }

    fn handle(&self, scratch: &Scratch<Vec<char>>, request: &[u8], response: &mut Response) {
        let mut letters = scratch.get();
        letters.extend(String::from_utf8_lossy(request).chars());
        letters.sort_unstable();
        let sorted: String = letters.iter().collect();
        response.write(sorted.as_bytes());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (local, client) = curtail::net::Local::new(64)?;
    let server = Server::builder(Sorter).transport(Box::new(local)).build()?;
    let handle = server.handle();
    let running = std::thread::spawn(move || server.run());

    let tickets = ["curtail", "scratch"].map(|text| client.submit(text.as_bytes().to_vec()));
    for ticket in tickets {
        let ticket = ticket.map_err(|_| "there is no room")?;
        println!("{}", String::from_utf8_lossy(&ticket.wait()?));
    }

    handle.shutdown();
    running.join().expect("the dispatcher does not panic")?;
    Ok(())
}
