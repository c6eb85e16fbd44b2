//! What a server counts, while it runs, as text that Prometheus reads.
#![forbid(unsafe_code)]

use curtail::{App, Class, ClassId, Response, Server, Stats, WorkerId};
use std::error::Error;

struct Echo;

impl App for Echo {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("short"), Class::named("long")]
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request.len() > 4))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        response.write(request);
    }
}

/// The exposition format: a name, labels, a value.
fn metrics(stats: &Stats) -> String {
    let mut text = String::from("# TYPE requests_completed counter\n");
    for class in &stats.classes {
        let (name, completed) = (&class.name, class.completed);
        text += &format!("requests_completed{{class=\"{name}\"}} {completed}\n");
    }
    text += "# TYPE sojourn_seconds summary\n";
    for class in &stats.classes {
        for quantile in [0.5, 0.99] {
            let seconds = class.sojourn_ns.value_at_quantile(quantile) as f64 / 1e9;
            let labels = format!("class=\"{}\",quantile=\"{quantile}\"", class.name);
            text += &format!("sojourn_seconds{{{labels}}} {seconds}\n");
        }
    }
    text
}

fn main() -> Result<(), Box<dyn Error>> {
    let (local, client) = curtail::net::Local::new(64)?;
    let server = Server::builder(Echo).transport(Box::new(local)).build()?;
    let handle = server.handle();
    let running = std::thread::spawn(move || server.run());

    for request in ["a", "b", "a long one"] {
        client.call(request.as_bytes().to_vec())?;
    }
    // In a service: what `GET /metrics` answers. A client has its answer before that is counted.
    let stats = loop {
        let stats = handle.stats().ok_or("the server has ended")?;
        if stats.classes.iter().map(|class| class.completed).sum::<u64>() == 3 {
            break stats;
        }
        std::thread::yield_now();
    };
    print!("{}", metrics(&stats));

    handle.shutdown();
    running.join().expect("the dispatcher does not panic")?;
    Ok(())
}
