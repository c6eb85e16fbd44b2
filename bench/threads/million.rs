//! So many threads parked at once: `threads-million [COUNT [STACK_BYTES [light]]]` prints how long that
//! takes and what memory a parked thread has, with thread-locals of its own or light.

use curtail::{Runtime, park, spawn, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

static PARKED: AtomicUsize = AtomicUsize::new(0);

/// A figure of /proc/self/status, in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(name)).expect("it is told");
    let kib: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kib * 1024
}

fn main() {
    let number = |at| std::env::args().nth(at).map(|text| text.parse().expect("a number"));
    let count: usize = number(1).unwrap_or(1_000_000);
    let stack: usize = number(2).unwrap_or(1024 * 1024);
    let mut runtime = Runtime::builder().stack_size(stack);
    if std::env::args().nth(3).is_some_and(|option| option == "light") {
        runtime = runtime.light();
    }
    runtime.run(move || {
        let (memory, tables) = (status("VmRSS"), status("VmPTE"));
        let begun = Instant::now();
        let threads: Vec<_> = (0..count)
            .map(|index| {
                if index % 64 == 0 {
                    yield_now(); // Those that were spawned start.
                }
                spawn(|| {
                    PARKED.fetch_add(1, Ordering::Relaxed);
                    park();
                })
            })
            .collect();
        while PARKED.load(Ordering::Relaxed) < count {
            yield_now();
        }
        println!("{count} threads parked after {:.2?}", begun.elapsed());
        println!("memory, bytes a thread: {}", (status("VmRSS") - memory) / count);
        println!("page tables, bytes a thread: {}", (status("VmPTE") - tables) / count);
        let begun = Instant::now();
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads.into_iter().for_each(|thread| thread.join().expect("it only parks"));
        println!("woken and joined after {:.2?}", begun.elapsed());
        println!("memory after that, MiB: {}", status("VmRSS") >> 20);
    });
}
