//! Curtail's threads on one kthread: `wakeups-curtail COMPUTING SLEEPS [--quantum-2us]` (README.md).

use curtail::net::{TcpListener, TcpStream};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The chain that every contestant computes; no step can begin before the one ahead has ended.
#[inline(never)]
fn spin(steps: u64) -> u64 {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..black_box(steps) {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x
}

/// How many steps take a millisecond: by the quickest of a few tries.
fn steps_per_ms() -> u64 {
    let took = |_| {
        let start = Instant::now();
        black_box(spin(1_000_000));
        start.elapsed().as_nanos() as u64
    };
    1_000_000 * 1_000_000 / (0..9).map(took).min().expect("nine tries")
}

fn compute(steps: u64, rounds: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        black_box(spin(steps));
        rounds.fetch_add(1, Ordering::Relaxed);
        curtail::yield_now();
    }
}

fn echo(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let length = connection.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..length])?;
    }
}

fn measure(computing: usize, sleeps: usize, steps: u64) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let accepting = curtail::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            drop(curtail::spawn(move || echo(connection)));
        }
    });
    let rounds = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..computing {
        let (rounds, stop) = (Arc::clone(&rounds), Arc::clone(&stop));
        drop(curtail::spawn(move || compute(steps, &rounds, &stop)));
    }
    let mut late = Vec::with_capacity(sleeps);
    let start = Instant::now();
    for _ in 0..sleeps {
        let due = Instant::now() + Duration::from_millis(1);
        curtail::time::sleep(Duration::from_millis(1));
        late.push(due.elapsed().as_nanos());
    }
    let computed = rounds.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    let mut line = String::new();
    for ns in late {
        let _ = write!(line, "{ns} ");
    }
    println!("{line}\n{computed:.3}");
    // The client may still ask; the benchmark ends this program.
    accepting.join().map_err(|_| io::Error::other("accepting ended"))
}

fn main() -> io::Result<()> {
    let number = |at| std::env::args().nth(at)?.parse().ok();
    let (Some(computing), Some(sleeps)) = (number(1), number(2)) else {
        return Err(io::Error::other("usage: wakeups-curtail COMPUTING SLEEPS [--quantum-2us]"));
    };
    let steps = steps_per_ms();
    let mut runtime = curtail::Runtime::builder().kthreads(1);
    if std::env::args().nth(3).is_some_and(|option| option == "--quantum-2us") {
        runtime = runtime.quantum(Duration::from_micros(2));
    }
    runtime.run(move || measure(computing, sleeps, steps))
}
