//! A server that ends well: SIGINT (Ctrl-C) and SIGTERM drain it, a second one ends it at once.
#![forbid(unsafe_code)]

use curtail::{App, Response, Server, WorkerId};
use std::error::Error;
use std::time::Duration;

struct Echo;

impl App for Echo {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        // What is under way when the signal comes is still answered.
        curtail::time::sleep(Duration::from_millis(1));
        response.write(request);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let transport = curtail::net::open("udp://127.0.0.1:0")?;
    println!("{}", transport.describe());
    let server =
        Server::builder(Echo).transport(transport).drain(Duration::from_secs(5)).build()?;
    server.handle().shutdown_on_signals()?;
    let report = server.run()?;
    println!("{} served, {} left behind", report.classes[0].completed, report.abandoned);
    Ok(())
}
