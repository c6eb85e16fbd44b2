//! Frames in shared words: what goes in comes out, and what can't be is found out.
#![cfg(not(loom))]

use curtail_ring::frames::{FrameError, FrameReader, FrameWriter, Lane};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Ring {
    tail: AtomicU64,
    head: AtomicU64,
    words: Vec<AtomicU64>,
}

impl Ring {
    fn new(words: usize) -> Self {
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { tail: AtomicU64::new(0), head: AtomicU64::new(0), words }
    }

    fn lane(&self) -> Lane<'_> {
        Lane::new(&self.tail, &self.head, &self.words)
    }
}

fn payload(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + seed) as u8).collect()
}

#[test]
fn every_length_at_every_place() {
    let ring = Ring::new(64);
    let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
    let mut buffer = Vec::new();
    let most = ring.lane().most_bytes();
    assert_eq!(most, 248);
    for round in 0..64 {
        // Moves on by a word each round.
        writer.push(ring.lane(), 0, 0, b"").unwrap();
        assert_eq!(reader.next(ring.lane(), &mut buffer).unwrap().unwrap().bytes, b"");
        for len in 0..=most {
            let (tag, kind, sent) = ((len * round) as u32, (len % 15) as u8, payload(len, round));
            writer.push(ring.lane(), tag, kind, &sent).unwrap();
            let frame = reader.next(ring.lane(), &mut buffer).unwrap().unwrap();
            assert_eq!((frame.tag, frame.kind, frame.bytes), (tag, kind, &sent[..]));
            assert!(reader.release(ring.lane()));
            assert!(reader.is_empty(ring.lane()));
        }
    }
    let too_long = payload(most + 1, 0);
    assert_eq!(writer.push(ring.lane(), 0, 0, &too_long), Err(FrameError::TooLong));
}

#[test]
fn a_full_ring_takes_more_once_places_are_released() {
    let ring = Ring::new(16);
    let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
    let mut buffer = Vec::new();
    for _ in 0..8 {
        writer.push(ring.lane(), 1, 0, b"12345678").unwrap();
    }
    assert_eq!(writer.push(ring.lane(), 1, 0, b""), Err(FrameError::Full));
    assert!(reader.next(ring.lane(), &mut buffer).unwrap().is_some());
    assert_eq!(writer.push(ring.lane(), 1, 0, b""), Err(FrameError::Full), "not released yet");
    assert!(reader.release(ring.lane()) && !reader.release(ring.lane()));
    writer.push(ring.lane(), 1, 0, b"").unwrap();
}

#[test]
fn what_cannot_be_is_corrupt() {
    let next = |ring: &Ring| {
        let mut reader = FrameReader::default();
        reader.next(ring.lane(), &mut Vec::new()).map(|frame| frame.is_some())
    };
    let skip = 15 << 28;
    for (tail, words, what) in [
        (17, [0, 0], "more than the ring has"),
        (u64::MAX, [0, 0], "behind the head"),
        (1, [8, 0], "a frame beyond the tail"),
        (16, [57, 0], "a frame longer than half of the ring"),
        (16, [(1 << 28) - 1, 0], "a length beyond all"),
        (16, [skip, skip], "a skip at the beginning"),
    ] {
        let ring = Ring::new(16);
        ring.tail.store(tail, Relaxed);
        ring.words.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
        assert_eq!(next(&ring), Err(FrameError::Corrupt), "{what}");
    }
    // A skip with nothing behind it, a skip to a skip, and a frame across the end.
    for (tail, at_one, at_zero) in [(16, skip, 0), (17, skip, skip), (17, 8 * 8 - 8 + 57, 0)] {
        let ring = Ring::new(16);
        let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
        writer.push(ring.lane(), 0, 0, b"").unwrap();
        let mut buffer = Vec::new();
        reader.next(ring.lane(), &mut buffer).unwrap().unwrap();
        ring.tail.store(tail, Relaxed);
        ring.words[1].store(at_one, Relaxed);
        ring.words[0].store(at_zero, Relaxed);
        assert_eq!(reader.next(ring.lane(), &mut buffer), Err(FrameError::Corrupt), "{tail}");
    }
    let ring = Ring::new(16);
    ring.head.store(1, Relaxed);
    let mut writer = FrameWriter::default();
    for _ in 0..16 {
        writer.push(ring.lane(), 0, 0, b"").unwrap();
    }
    ring.head.store(17, Relaxed);
    assert_eq!(writer.push(ring.lane(), 0, 0, b""), Err(FrameError::Corrupt));
}

proptest! {
    /// A reader of any words gives frames within the ring, or an error.
    #[test]
    fn any_words_are_read_without_harm(words in prop::collection::vec(any::<u64>(), 16),
            small in prop::collection::vec(0_u64..64, 16), tail in 0_u64..20) {
        for words in [&words, &small] {
            let ring = Ring::new(16);
            ring.tail.store(tail, Relaxed);
            ring.words.iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
            let (mut reader, mut buffer) = (FrameReader::default(), Vec::new());
            let mut taken = 0;
            while let Ok(Some(frame)) = reader.next(ring.lane(), &mut buffer) {
                prop_assert!(frame.bytes.len() <= ring.lane().most_bytes());
                taken += 1;
            }
            prop_assert!(taken <= tail);
        }
    }

    /// As a queue would, for any order of pushes and takes.
    #[test]
    fn it_is_a_queue(steps in prop::collection::vec((any::<bool>(), 0_usize..60), 1..300)) {
        let ring = Ring::new(16);
        let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
        let (mut model, mut buffer) = (VecDeque::new(), Vec::new());
        for (number, (pushes, len)) in steps.into_iter().enumerate() {
            if pushes {
                let sent = payload(len, number);
                match writer.push(ring.lane(), number as u32, 0, &sent) {
                    Ok(()) => model.push_back((number as u32, sent)),
                    Err(FrameError::TooLong) => prop_assert!(len > 56),
                    Err(error) => {
                        prop_assert_eq!(error, FrameError::Full);
                        prop_assert!(!model.is_empty());
                    }
                }
            } else {
                let frame = reader.next(ring.lane(), &mut buffer).unwrap();
                let frame = frame.map(|frame| (frame.tag, frame.bytes.to_vec()));
                prop_assert_eq!(frame, model.pop_front());
                reader.release(ring.lane());
            }
        }
    }
}
