//! What it costs that spans follow: nanoseconds of a `yield_now` between two threads, and of entering
//! and leaving a span, with and without.
//!
//! `cargo run --release -p curtail-tracing --example cost -- on|off`

use std::time::Instant;
use tracing::info_span;
use tracing_subscriber::util::SubscriberInitExt;

const ROUNDS: u32 = 200_000;

fn main() {
    let subscriber = tracing_subscriber::registry();
    let on = match std::env::args().nth(1).as_deref() {
        Some("on") => true,
        Some("off") => false,
        _ => return eprintln!("usage: cost on|off"),
    };
    match on {
        true => curtail_tracing::follow(subscriber).init(),
        false => subscriber.init(),
    }
    curtail::Runtime::builder().kthreads(1).run(|| {
        for spans in [0, 1, 3] {
            println!("yield_now with {spans} spans entered: {:.1} ns", yields(spans));
        }
        let span = info_span!("span");
        let each = time(|| span.in_scope(|| ()));
        println!("a span entered and left: {each:.1} ns");
    });
}

/// The best of several runs.
fn time(mut f: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| f());
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    (0..5).map(run).fold(f64::INFINITY, f64::min)
}

/// Of each of two threads that take turns.
fn yields(spans: usize) -> f64 {
    let life = move || {
        let spans: Vec<_> = (0..spans).map(|_| info_span!("span").entered()).collect();
        let each = time(curtail::yield_now);
        drop(spans);
        each
    };
    let other = curtail::spawn(life);
    let ours = curtail::spawn(life).join().expect("it does not panic");
    // Both take turns: one call is two switches.
    ours.min(other.join().expect("it does not panic")) / 2.0
}
