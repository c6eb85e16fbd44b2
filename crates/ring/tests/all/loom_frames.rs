//! Frames and their bell, in every interleaving within small bounds:
//! `RUSTFLAGS="--cfg loom" cargo test -p curtail-ring --release --test all loom_frames::`.
#![cfg(loom)]

use curtail_ring::frames::{Bell, FrameReader, FrameWriter, Lane};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

struct Ring {
    tail: AtomicU64,
    head: AtomicU64,
    words: Vec<AtomicU64>,
    bell: AtomicU64,
    /// The descriptor that wakes the sleeper.
    rung: AtomicBool,
}

impl Ring {
    fn new() -> Arc<Self> {
        let new = || AtomicU64::new(0);
        let words = (0..4).map(|_| new()).collect();
        let rung = AtomicBool::new(false);
        Arc::new(Self { tail: new(), head: new(), words, bell: new(), rung })
    }

    fn lane(&self) -> Lane<'_> {
        Lane::new(&self.tail, &self.head, &self.words)
    }
}

#[test]
fn frames_are_whole_and_in_order() {
    loom::model(|| {
        let ring = Ring::new();
        let other = ring.clone();
        let sender = thread::spawn(move || {
            let mut writer = FrameWriter::default();
            // The third finds room only if the reader has released one: words are used again.
            (1..=3_u32)
                .take_while(|n| {
                    writer.push(other.lane(), *n, 0, &u64::from(*n).to_ne_bytes()).is_ok()
                })
                .count() as u32
        });
        let (mut reader, mut buffer) = (FrameReader::default(), Vec::new());
        let mut count = 0;
        let mut take = |ring: &Ring| {
            while let Some(frame) = reader.next(ring.lane(), &mut buffer).unwrap() {
                count += 1;
                assert_eq!((frame.tag, frame.bytes), (count, &u64::from(count).to_ne_bytes()[..]));
                reader.release(ring.lane());
            }
            count
        };
        take(&ring);
        let sent = sender.join().unwrap();
        assert_eq!(take(&ring), sent);
    });
}

#[test]
fn a_sleeper_is_woken() {
    loom::model(|| {
        let ring = Ring::new();
        let other = ring.clone();
        let sender = thread::spawn(move || {
            FrameWriter::default().push(other.lane(), 1, 0, b"").unwrap();
            if Bell(&other.bell).is_asked(1) {
                other.rung.store(true, Ordering::Relaxed);
            }
        });
        let reader = FrameReader::default();
        Bell(&ring.bell).ask(1);
        let sleeps = reader.is_empty(ring.lane());
        sender.join().unwrap();
        assert!(!sleeps || ring.rung.load(Ordering::Relaxed), "it sleeps on");
        assert!(!reader.is_empty(ring.lane()));
    });
}

#[test]
fn who_waits_for_room_is_woken() {
    loom::model(|| {
        let ring = Ring::new();
        let mut writer = FrameWriter::default();
        for n in 0..4 {
            writer.push(ring.lane(), n, 0, b"").unwrap();
        }
        let other = ring.clone();
        let taker = thread::spawn(move || {
            let (mut reader, mut buffer) = (FrameReader::default(), Vec::new());
            reader.next(other.lane(), &mut buffer).unwrap().unwrap();
            if reader.release(other.lane()) && Bell(&other.bell).is_asked(2) {
                other.rung.store(true, Ordering::Relaxed);
            }
        });
        Bell(&ring.bell).ask(2);
        let sleeps = !writer.has_room(ring.lane(), 0).unwrap();
        taker.join().unwrap();
        assert!(!sleeps || ring.rung.load(Ordering::Relaxed), "it sleeps on");
    });
}
