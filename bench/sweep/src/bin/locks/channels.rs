//! Channels and queues: what goes in comes out, once.

use crossbeam::channel::{Receiver, Sender, bounded, select};
use crossbeam::queue::{ArrayQueue, SegQueue};
use crossbeam_skiplist::SkipMap;
use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must, text};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Sums of what went in and of what came out.
struct Sums(AtomicU64, AtomicU64);

impl Sums {
    const fn new() -> Self {
        Self(AtomicU64::new(0), AtomicU64::new(0))
    }

    fn enter(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Relaxed);
        value
    }

    fn leave(&self, value: u64) {
        self.1.fetch_add(value, Relaxed);
    }

    fn are_equal(&self, what: &str) -> Result<(), String> {
        let (entered, left) = (self.0.load(Relaxed), self.1.load(Relaxed));
        must!(entered == left, "{what}: {entered} went in, {left} came out");
        Ok(())
    }
}

/// Eight at once send eight values before they take as many: there is room for all.
static CHANNEL: LazyLock<(Sender<u64>, Receiver<u64>)> = LazyLock::new(|| bounded(64));
static CHANNEL_SUMS: Sums = Sums::new();
/// With less room than they want: a helper, which is a thread of the kernel, takes from it.
static NARROW: LazyLock<Sender<(u64, Sender<u64>)>> = LazyLock::new(|| {
    let (ask, asked) = bounded::<(u64, Sender<u64>)>(2);
    std::thread::spawn(move || {
        for (value, answer) in asked {
            let _ = answer.send(value * 2);
        }
    });
    ask
});
static ARRAY: LazyLock<ArrayQueue<u64>> = LazyLock::new(|| ArrayQueue::new(64));
static SEGMENTS: SegQueue<u64> = SegQueue::new();
static QUEUE_SUMS: Sums = Sums::new();
static LIST: LazyLock<SkipMap<u64, String>> = LazyLock::new(SkipMap::new);

pub fn crossbeam() -> Outcome {
    let (sender, receiver) = &*CHANNEL;
    for _ in 0..8 {
        sender.send(CHANNEL_SUMS.enter(ticket())).map_err(text)?;
    }
    compute();
    for _ in 0..8 {
        select! { recv(receiver) -> value => CHANNEL_SUMS.leave(value.map_err(text)?) }
    }
    let (answer, answered) = bounded(1);
    for n in 0..4 {
        NARROW.send((n, answer.clone())).map_err(text)?;
        let found = answered.recv().map_err(text)?;
        must!(found == n * 2, "{found} is not twice {n}");
    }
    for _ in 0..8 {
        ARRAY.push(QUEUE_SUMS.enter(ticket())).map_err(|_| "no room for 64")?;
        SEGMENTS.push(QUEUE_SUMS.enter(ticket()));
    }
    for _ in 0..8 {
        QUEUE_SUMS.leave(ARRAY.pop().ok_or("the array is empty")?);
        QUEUE_SUMS.leave(SEGMENTS.pop().ok_or("the segments are empty")?);
    }
    let keys = [(); 8].map(|()| ticket());
    for key in keys {
        LIST.insert(key, key.to_string());
    }
    for key in keys {
        let entry = LIST.get(&key).ok_or_else(|| format!("{key} is not in the list"))?;
        compute();
        must!(*entry.value() == key.to_string(), "{key} has {}", entry.value());
        must!(entry.remove(), "{key} was removed by another");
    }
    Ok("all".to_owned())
}

pub fn crossbeam_end() -> Result<(), String> {
    CHANNEL_SUMS.are_equal("channel")?;
    QUEUE_SUMS.are_equal("queues")?;
    must!(LIST.is_empty(), "{} are left in the list", LIST.len());
    Ok(())
}

type Ends = (flume::Sender<u64>, flume::Receiver<u64>);
static WIDE: LazyLock<Ends> = LazyLock::new(|| flume::bounded(64));
static FLUME_SUMS: Sums = Sums::new();
static ASK: LazyLock<flume::Sender<(u64, flume::Sender<u64>)>> = LazyLock::new(|| {
    let (ask, asked) = flume::bounded::<(u64, flume::Sender<u64>)>(1);
    std::thread::spawn(move || {
        for (value, answer) in asked.iter() {
            let _ = answer.send(value * 2);
        }
    });
    ask
});

pub fn flume() -> Outcome {
    let (sender, receiver) = &*WIDE;
    for _ in 0..8 {
        sender.send(FLUME_SUMS.enter(ticket())).map_err(text)?;
    }
    compute();
    for _ in 0..8 {
        let other = flume::unbounded::<u64>();
        let selected = flume::Selector::new()
            .recv(receiver, |value| value)
            .recv(&other.1, |value| value)
            .wait();
        FLUME_SUMS.leave(selected.map_err(text)?);
    }
    let (answer, answered) = flume::bounded(0);
    for n in 0..4 {
        ASK.send((n, answer.clone())).map_err(text)?;
        let found = answered.recv().map_err(text)?;
        must!(found == n * 2, "{found} is not twice {n}");
    }
    Ok("all".to_owned())
}

pub fn flume_end() -> Result<(), String> {
    FLUME_SUMS.are_equal("channel")
}
