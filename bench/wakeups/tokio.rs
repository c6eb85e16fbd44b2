//! tokio on its current-thread scheduler: `wakeups-tokio COMPUTING SLEEPS` (README.md). Its timer has
//! ticks of a millisecond.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

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

async fn compute(steps: u64, rounds: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        black_box(spin(steps));
        rounds.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

async fn echo(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let length = connection.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..length]).await?;
    }
}

async fn measure(computing: usize, sleeps: usize, steps: u64) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(echo(connection));
        }
    });
    let rounds = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..computing {
        tokio::spawn(compute(steps, Arc::clone(&rounds), Arc::clone(&stop)));
    }
    let mut late = Vec::with_capacity(sleeps);
    let start = Instant::now();
    for _ in 0..sleeps {
        let due = Instant::now() + Duration::from_millis(1);
        tokio::time::sleep(Duration::from_millis(1)).await;
        late.push(due.elapsed().as_nanos());
    }
    let computed = rounds.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    let mut line = String::new();
    for ns in late {
        let _ = write!(line, "{ns} ");
    }
    println!("{line}\n{computed:.3}");
    // The client may still ask; the benchmark ends this program.
    std::future::pending().await
}

fn main() -> io::Result<()> {
    let number = |at| std::env::args().nth(at)?.parse().ok();
    let (Some(computing), Some(sleeps)) = (number(1), number(2)) else {
        return Err(io::Error::other("usage: wakeups-tokio COMPUTING SLEEPS"));
    };
    let steps = steps_per_ms();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(runtime.spawn(measure(computing, sleeps, steps))).map_err(io::Error::other)?
}
