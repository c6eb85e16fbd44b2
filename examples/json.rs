//! Requests and answers in JSON, over UDP; and a client that asks once.
#![forbid(unsafe_code)]

use curtail::{App, Response, Server, WorkerId};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::net::UdpSocket;

#[derive(Deserialize)]
struct Order {
    prices: Vec<u64>,
    pieces: u64,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Answer {
    total: u64,
}

struct Shop;

impl App for Shop {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let answer = match serde_json::from_slice::<Order>(request) {
            Ok(order) => {
                let total = order.prices.iter().sum::<u64>() * order.pieces;
                serde_json::to_vec(&Answer { total })
            }
            Err(error) => serde_json::to_vec(&error.to_string()),
        };
        response.write(&answer.unwrap_or_default());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let transport = curtail::net::open("udp://127.0.0.1:0")?;
    let address = transport.local_addrs()[0];
    let server = Server::builder(Shop).transport(transport).build()?;
    let handle = server.handle();
    let running = std::thread::spawn(move || server.run());

    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.send_to(br#"{"prices": [3, 4], "pieces": 6}"#, address)?;
    let mut bytes = [0; 2_048];
    let length = client.recv(&mut bytes)?;
    let answer: Answer = serde_json::from_slice(&bytes[..length])?;
    println!("total: {}", answer.total);

    handle.shutdown();
    running.join().expect("the dispatcher does not panic")?;
    Ok(())
}
