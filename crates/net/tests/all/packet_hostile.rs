//! Frames by the hundred thousand that nobody means well with: none makes the transport panic, none
//! is lost, and each is counted once. `CURTAIL_HOSTILE_FRAMES` says how many.

use crate::common;

use common::frames::{
    OUR4, OUR6, THEIR4, THEIR6, arp, missing, read, request4, request6, simulated, solicitation,
};
use common::{Collect, completion, counter};
use curtail_net::packet::SimulatedLink;
use curtail_net::{FaultConfig, Transport};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Good frames that bad ones are made of.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let tagged =
        [&request4(b"tagged")[..12], &[0x81, 0, 0, 1], &request4(b"tagged")[12..]].concat();
    vec![
        request4(b"a request"),
        request4(&[9; 1_400]),
        request4(b""),
        request6(b"another request"),
        request6(&[9; 1_000]),
        arp(THEIR4, OUR4),
        solicitation(THEIR6, OUR6, 255),
        solicitation([0; 16].into(), OUR6, 255),
        tagged,
    ]
}

/// A frame with something wrong, or, now and then, nothing.
pub(crate) fn hostile(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(4) {
        let length = frame.len();
        match random.below(7) {
            0 if length > 0 => frame[random.below(length)] ^= 1 << random.below(8),
            1 if length > 0 => frame[random.below(length)] = random.next() as u8,
            // Where the headers are.
            2 if length > 61 => frame[12 + random.below(50)] = [0, 1, 0x7f, 0xff][random.below(4)],
            3 => frame.truncate(random.below(length + 1)),
            4 => frame.extend((0..random.below(80)).map(|at| at as u8)),
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let at = random.below(length.min(other.len()));
                frame.truncate(at);
                frame.extend(&other[at..]);
            }
            _ => {
                frame = (0..random.below(200)).map(|_| random.next() as u8).collect();
            }
        }
    }
    // What is behind a checksum is to be reached, too.
    if random.below(2) == 0 {
        repair(&mut frame);
    }
    frame
}

/// Makes the checksum of IPv4's header right, and leaves out UDP's.
fn repair(frame: &mut [u8]) {
    if frame.len() < 42 || frame[12..14] != [8, 0] || frame[14] & 15 != 5 {
        return;
    }
    frame[40..42].fill(0);
    frame[24..26].fill(0);
    let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.ones_complement().to_ne_bytes());
}

/// Everything that became of frames.
const FATES: [&str; 10] = [
    "packet_over_share",
    "packet_arp_requests",
    "packet_neighbour_solicitations",
    "packet_not_ours",
    "packet_short_refused",
    "packet_malformed",
    "packet_checksum_errors",
    "packet_fragments_refused",
    "packet_forged_refused",
    "packet_size_refused",
];

/// What we sent reads well.
fn drain(link: &SimulatedLink) -> u64 {
    let mut count = 0;
    while let Some(frame) = link.take() {
        let (to, _) = read(&frame);
        assert!(to[0] & 1 == 0 || to == [0x33, 0x33, 0, 0, 0, 1], "{to:x?}");
        count += 1;
    }
    count
}

#[test]
fn hostile_frames_break_nothing_and_none_is_lost() {
    let frames = std::env::var("CURTAIL_HOSTILE_FRAMES");
    let frames: u64 = frames.map_or(100_000, |it| it.parse().expect("a number of frames"));
    let seeds = seeds();
    let mut random = Random(0x0bad_f4a3);
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    let reply = packets.reply();
    let (mut requests, mut answers) = (0, 0);
    for _ in 0..frames {
        link.put(&hostile(&mut random, &seeds));
        let mut into = Collect::up_to(64);
        packets.poll(0, &mut into);
        for (payload, peer) in &into.requests {
            requests += 1;
            assert!(!payload.is_empty() && payload.len() <= 2_048);
            reply.reply(*peer, payload);
            packets.completed(&completion(*peer));
        }
        answers += drain(&link);
    }
    let fates: u64 = FATES.iter().map(|name| counter(&packets, name)).sum();
    assert_eq!(fates + requests + link.lost(), frames);
    let told = counter(&packets, "packet_arp_requests")
        + counter(&packets, "packet_neighbour_solicitations");
    assert_eq!(answers + reply.dropped(), requests + told);
    assert_eq!((missing(&packets), counter(&packets, "packet_unanswered")), (0, 0));
    // It was about something.
    for name in FATES.iter().skip(1) {
        assert!(counter(&packets, name) > frames / 10_000, "{name}: {}", counter(&packets, name));
    }
    assert!(requests > frames / 20, "{requests}");
}
