//! Frames by the hundred thousand that nobody means well with: none makes the transport panic, none
//! is lost, and each is counted once. `CURTAIL_HOSTILE_FRAMES` says how many.

use crate::common;

use common::frames::{missing, read, simulated};
use common::hostile::{Random, frame_count, hostile, seeds};
use common::{Collect, completion, counter};
use curtail_net::packet::SimulatedLink;
use curtail_net::{FaultConfig, Transport};

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
    let frames = frame_count(100_000);
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
