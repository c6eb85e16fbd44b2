//! The framing state machine against a plain restatement of the format.

use curtail_net::{Framer, HEADER_BYTES};
use proptest::prelude::*;

const LIMIT: usize = 40;

/// All whole frames of `stream`, and whether a frame above the limit ends them.
fn frames_of(stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let length = u32::from_le_bytes(*header) as usize;
        if length > LIMIT {
            return (frames, true);
        }
        if after.len() < length {
            break;
        }
        frames.push(after[..length].to_vec());
        rest = &after[length..];
    }
    (frames, false)
}

/// Feeds `stream` in chunks; after `pauses[i]` frames the rest of a chunk is put off, and looked at
/// again before the next chunk.
fn feed(
    mut framer: Framer,
    stream: &[u8],
    chunks: &[usize],
    pauses: &[usize],
) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    let mut rest = stream;
    let mut step = 0;
    while !rest.is_empty() || framer.is_ready() {
        let take = chunks[step % chunks.len()].min(rest.len());
        let (mut input, after) =
            if framer.is_ready() { (&[][..], rest) } else { rest.split_at(take) };
        rest = after;
        let before = framer.held_bytes();
        let offered = input.len();
        for _ in 0..pauses[step % pauses.len()] {
            match framer.next(&mut input) {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => {
                    assert!(input.is_empty() && !framer.is_ready());
                    break;
                }
                Err(error) => {
                    assert!(error.announced as usize > LIMIT);
                    assert!(framer.next(&mut input).is_err(), "an error stays one");
                    return (frames, true);
                }
            }
        }
        framer.hold(input);
        assert!(framer.held_bytes() <= before + offered, "memory grows with what came alone");
        step += 1;
    }
    (frames, false)
}

fn arbitrary_stream() -> impl Strategy<Value = Vec<u8>> {
    let good = prop::collection::vec(any::<u8>(), 0..=LIMIT)
        .prop_map(|payload| [&(payload.len() as u32).to_le_bytes()[..], &payload].concat());
    let noise = prop::collection::vec(any::<u8>(), 0..20);
    let zeros = (0..30_usize).prop_map(|count| vec![0; count]);
    let piece = prop_oneof![8 => good, 1 => noise, 1 => zeros];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunks_and_pauses_change_nothing(
        stream in arbitrary_stream(),
        chunks in prop::collection::vec(1..90_usize, 1..10),
        pauses in prop::collection::vec(1..5_usize, 1..10),
    ) {
        let framer = Framer::new(LIMIT);
        prop_assert_eq!(feed(framer, &stream, &chunks, &pauses), frames_of(&stream));
    }

    #[test]
    fn short_frames_are_the_same_frames_behind_another_length(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=LIMIT), 0..30),
        cut in 0..60_usize,
        chunks in prop::collection::vec(1..90_usize, 1..10),
        pauses in prop::collection::vec(1..5_usize, 1..10),
    ) {
        let framed = |payload: &Vec<u8>| [&(payload.len() as u16).to_be_bytes()[..], payload].concat();
        let mut stream = payloads.iter().flat_map(framed).collect::<Vec<u8>>();
        stream.extend_from_slice(&(LIMIT as u16).to_be_bytes());
        stream.resize(stream.len() + cut.min(LIMIT - 1), 7);
        let whole = feed(Framer::short(LIMIT), &stream, &chunks, &pauses);
        prop_assert_eq!(whole, (payloads.clone(), false));
        stream.truncate(stream.len() - 2 - cut.min(LIMIT - 1));
        stream.extend_from_slice(&(LIMIT as u16 + 1).to_be_bytes());
        prop_assert_eq!(feed(Framer::short(LIMIT), &stream, &chunks, &pauses), (payloads, true));
    }
}

#[test]
fn an_announced_length_reserves_nothing() {
    let mut framer = Framer::new(usize::MAX);
    let mut input = &u32::MAX.to_le_bytes()[..];
    assert_eq!(framer.next(&mut input), Ok(None));
    assert_eq!(framer.held_bytes(), HEADER_BYTES);
    assert!(!framer.is_ready());
    framer.clear();
    assert_eq!(framer.held_bytes(), 0);
}

#[test]
fn a_whole_frame_is_not_copied() {
    let mut framer = Framer::new(LIMIT);
    let stream = [3, 0, 0, 0, b'a', b'b', b'c'];
    let mut input = &stream[..];
    let frame = framer.next(&mut input).unwrap().unwrap();
    assert_eq!(frame.as_ptr(), stream[HEADER_BYTES..].as_ptr());
}
