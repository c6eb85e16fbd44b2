//! What is a thread's own: scoped and other thread-locals, stacks, signals.

use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must, text};
use scoped_tls::scoped_thread_local;
use signal_hook::consts::SIGUSR1;
use signal_hook::low_level;
use std::cell::Cell;
use std::hint::black_box;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use thread_local::ThreadLocal;

scoped_thread_local!(static CURRENT: Vec<u64>);

fn sees(id: u64) -> Result<(), String> {
    compute();
    let seen = CURRENT.with(|current| (current[0], current[999]));
    must!(seen == (id, id), "{id} sees {seen:?}");
    Ok(())
}

pub fn scoped_tls() -> Outcome {
    let (outer, inner) = (ticket(), ticket());
    CURRENT.set(&vec![outer; 1_000], || {
        for _ in 0..10 {
            sees(outer)?;
            CURRENT.set(&vec![inner; 1_000], || sees(inner))?;
            sees(outer)?;
        }
        Ok::<_, String>(())
    })?;
    compute();
    must!(!CURRENT.is_set(), "it is set outside");
    Ok("own".to_owned())
}

static OWN: LazyLock<ThreadLocal<Mutex<u64>>> = LazyLock::new(ThreadLocal::new);
static ADDED: AtomicU64 = AtomicU64::new(0);

pub fn thread_local() -> Outcome {
    for _ in 0..10 {
        let cell = OWN.get_or_default();
        let mut count = cell.try_lock().map_err(|_| "another has this thread's cell")?;
        let before = *count;
        compute();
        *count = before + 1;
        ADDED.fetch_add(1, Relaxed);
    }
    thread_local!(static DEPTH: Cell<u64> = const { Cell::new(0) });
    DEPTH.set(DEPTH.get() + 1);
    compute();
    let depth = DEPTH.replace(0);
    must!(depth == 1, "the depth is {depth}");
    Ok("own".to_owned())
}

pub fn thread_local_end() -> Result<(), String> {
    let sum: u64 = OWN.iter().filter_map(|cell| cell.try_lock().ok()).map(|it| *it).sum();
    let added = ADDED.load(Relaxed);
    must!(sum == added, "{sum} instead of {added}");
    Ok(())
}

/// Needs some 20 MiB in all.
fn depth(n: u64) -> u64 {
    stacker::maybe_grow(32 * 1024, 1024 * 1024, || {
        let page = black_box([n; 512]);
        if n.is_multiple_of(64) {
            compute();
        }
        if n == 0 { 0 } else { depth(n - 1) + page[(n % 512) as usize] }
    })
}

pub fn stacker() -> Outcome {
    Ok(depth(4_000).to_string())
}

/// The reading end; signals write a byte each.
static SEEN: LazyLock<Result<Mutex<UnixStream>, String>> = LazyLock::new(|| {
    let (read, write) = UnixStream::pair().map_err(text)?;
    read.set_nonblocking(true).map_err(text)?;
    low_level::pipe::register(SIGUSR1, write).map_err(text)?;
    Ok(Mutex::new(read))
});
static RAISED: AtomicU64 = AtomicU64::new(0);
static READ: AtomicU64 = AtomicU64::new(0);

pub fn signal_hook() -> Outcome {
    let seen = SEEN.as_ref().map_err(Clone::clone)?;
    for _ in 0..5 {
        // Before and after under the lock: what was raised has been delivered when `raise` returns.
        let mut seen = seen.lock().map_err(text)?;
        low_level::raise(SIGUSR1).map_err(text)?;
        let raised = RAISED.fetch_add(1, Relaxed) + 1;
        compute();
        let mut bytes = [0; 64];
        match seen.read(&mut bytes) {
            Ok(count) => READ.fetch_add(count as u64, Relaxed),
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.to_string()),
        };
        let read = READ.load(Relaxed);
        must!(read == raised, "{raised} were raised, {read} were seen");
    }
    Ok("seen".to_owned())
}
