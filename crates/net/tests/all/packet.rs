//! Packets over a device in memory: what is answered, and what is refused for which reason.

use crate::common;

use common::frames::{
    FRAMES, OUR4, OUR6, OURS, Sent, THEIR4, THEIR6, THEIRS, arp, drivers, missing, peer, read,
    request, request4, request6, served, simulated, simulated_queues, solicitation,
};
use common::{Collect, Echo, LONG, completion, counter, poll_requests};
use curtail_net::packet::{PacketConfig, Packets, SimulatedLink};
use curtail_net::{Both, FaultConfig, OpenError, Peer, Status, Transport, open};
use std::net::Ipv6Addr;
use std::time::Instant;

fn sent(link: &SimulatedLink) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| link.take()).collect()
}

#[test]
fn a_request_is_answered_to_where_it_came_from() {
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    let reply = packets.reply();
    let cases = [
        (request4(b"four"), peer(THEIR4), served()[0], &b"four"[..]),
        (request6(b"six, of uneven length"), peer(THEIR6), served()[1], b"six, of uneven length"),
    ];
    for (index, (frame, from, to, payload)) in cases.into_iter().enumerate() {
        let mut into = Collect::up_to(4);
        // Ethernet fills frames up.
        let padded = [&frame[..], &[0; 60]].concat();
        link.put(&padded);
        poll_requests(&mut packets, &mut into, 1);
        let address = index as u16;
        let expected = Peer::Packet { queue: 0, address, hardware: THEIRS, from };
        assert_eq!(into.requests, [(payload.to_vec(), expected)]);
        reply.reply(expected, b"answer");
        packets.completed(&completion(expected));
        let answer = Sent::Datagram { from: to, to: from, payload: b"answer".to_vec() };
        assert_eq!(sent(&link).iter().map(|it| read(it)).collect::<Vec<_>>(), [(THEIRS, answer)]);
    }
    assert_eq!((reply.dropped(), missing(&packets)), (0, 0));
    packets.close();
    assert_eq!(packets.poll(0, &mut Collect::up_to(1)), Status::Closed);
}

#[test]
fn an_answer_beyond_the_link_is_dropped_and_counted() {
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    let mut into = Collect::up_to(1);
    link.put(&request4(b"x"));
    poll_requests(&mut packets, &mut into, 1);
    let peer = into.requests[0].1;
    let reply = packets.reply();
    reply.reply(peer, &[7; 1_473]);
    reply.reply(Peer::None, b"x");
    assert_eq!((reply.dropped(), counter(&packets, "packet_too_long")), (2, 1));
    reply.reply(peer, &[7; 1_472]);
    let frames = sent(&link);
    assert_eq!((frames.len(), frames[0].len()), (1, 1_514));
}

#[test]
fn who_asks_for_our_addresses_is_answered() {
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    let nobody = Ipv6Addr::UNSPECIFIED;
    let everyone = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let arp_sent = Sent::Arp { has: OUR4, to: THEIR4 };
    let told = Sent::Advertisement { has: OUR6, to: THEIR6, solicited: true };
    let told_all = Sent::Advertisement { has: OUR6, to: everyone, solicited: false };
    let cases = [
        (arp(THEIR4, OUR4), Some((THEIRS, arp_sent))),
        (arp(THEIR4, THEIR4), None),
        (arp(OUR4, OUR4), None),
        (solicitation(THEIR6, OUR6, 255), Some((THEIRS, told))),
        (solicitation(nobody, OUR6, 255), Some(([0x33, 0x33, 0, 0, 0, 1], told_all))),
        (solicitation(THEIR6, THEIR6, 255), None),
        // It came by a router.
        (solicitation(THEIR6, OUR6, 254), None),
        (solicitation(OUR6, OUR6, 255), None),
    ];
    for (frame, expected) in cases {
        link.put(&frame);
        packets.poll(0, &mut Collect::up_to(4));
        assert_eq!(link.take().map(|it| read(&it)), expected);
    }
    let [arps, solicitations] =
        ["packet_arp_requests", "packet_neighbour_solicitations"].map(|it| counter(&packets, it));
    assert_eq!((arps, solicitations, missing(&packets)), (1, 2, 0));
}

/// A frame with other bytes at a place.
fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// With a right checksum of IPv4's header.
fn repaired(mut frame: Vec<u8>) -> Vec<u8> {
    let header = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
    frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    frame
}

#[test]
fn hostile_frames_are_refused_for_their_reasons() {
    let (four, six) = (request4(b"payload"), request6(b"payload"));
    let (short, forged) = ("packet_short_refused", "packet_forged_refused");
    let (checksum, fragments) = ("packet_checksum_errors", "packet_fragments_refused");
    let other = "packet_not_ours";
    let mut fragment_header = with(six.clone(), 20, &[44]);
    fragment_header[54] = 17;
    let from_us = request(served()[0], served()[0], b"x");
    let port_zero = request((THEIR4, 0).into(), served()[0], b"x");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (short, vec![]),
        (short, four[..13].to_vec()),
        (short, four[..20].to_vec()),
        (short, four[..45].to_vec()),
        (short, six[..53].to_vec()),
        (short, six[..61].to_vec()),
        (short, six[..68].to_vec()),
        (short, with(four.clone(), 16, &[0xff, 0xff])),
        // A header of IPv4 of three words, then one that leads beyond the packet.
        (short, with(four.clone(), 14, &[0x43])),
        (short, with(with(four.clone(), 14, &[0x4f]), 16, &[0, 36])),
        (other, with(four.clone(), 0, &[2, 9, 9, 9, 9, 9])),
        (other, with(four.clone(), 0, &[0xff; 6])),
        (other, with(four.clone(), 12, &[0x88, 0xb5])),
        (other, repaired(with(four.clone(), 23, &[6]))),
        (other, request(peer(THEIR4), (THEIR4, 4_000).into(), b"x")),
        (other, request(peer(THEIR4), (OUR4, 4_001).into(), b"x")),
        (other, with(six.clone(), 20, &[0])),
        (checksum, with(four.clone(), 24, &[four[24] ^ 1])),
        (checksum, with(four.clone(), 42, b"P")),
        (checksum, with(six.clone(), 62, b"P")),
        (checksum, with(six.clone(), 60, &[0, 0])),
        (fragments, repaired(with(four.clone(), 20, &[0x20, 0]))),
        (fragments, repaired(with(four.clone(), 20, &[0, 1]))),
        (fragments, fragment_header),
        (forged, with(four.clone(), 6, &[1, 2, 3, 4, 5, 6])),
        (forged, with(four.clone(), 6, &OURS)),
        (forged, with(four.clone(), 6, &[0; 6])),
        (forged, request(peer([127, 0, 0, 1]), served()[0], b"x")),
        (forged, request(peer([255; 4]), served()[0], b"x")),
        (forged, request(peer([0; 4]), served()[0], b"x")),
        (forged, request(peer([224, 0, 0, 1]), served()[0], b"x")),
        (forged, request(peer(Ipv6Addr::LOCALHOST), served()[1], b"x")),
        (forged, from_us),
        (forged, port_zero),
        ("packet_malformed", with(four.clone(), 38, &[0, 7])),
        ("packet_malformed", with(arp(THEIR4, OUR4), 14, &[0, 2])),
        ("packet_size_refused", request4(b"")),
    ];
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    let mut into = Collect::up_to(1_000);
    for (index, (reason, frame)) in cases.iter().enumerate() {
        let before = counter(&packets, reason);
        link.put(frame);
        packets.poll(0, &mut into);
        assert_eq!(counter(&packets, reason), before + 1, "case {index}: {frame:x?}");
    }
    assert!(into.requests.is_empty() && sent(&link).is_empty());
    assert_eq!(into.malformed, cases.iter().filter(|(reason, _)| *reason != other).count() as u64);
    // Without a checksum: IPv4 allows it.
    link.put(&with(four, 40, &[0, 0]));
    packets.poll(0, &mut into);
    assert_eq!((into.requests.len(), missing(&packets)), (1, 0));
}

#[test]
fn a_checksum_left_to_the_device_is_taken_where_that_was_asked_for() {
    // What a sender leaves there: the sum of the addresses, the protocol and the length.
    let sum = etherparse::checksum::Sum16BitWords::new()
        .add_slice(&THEIR4.octets())
        .add_slice(&OUR4.octets())
        .add_slice(&[0, 17, 0, 8 + 7]);
    let begun = (!sum.ones_complement().to_be()).to_be_bytes();
    let frame = with(request4(b"payload"), 40, &begun);
    for partial in [false, true] {
        let (mut packets, link) = simulated(FaultConfig::default(), partial);
        let mut into = Collect::up_to(4);
        link.put(&frame);
        packets.poll(0, &mut into);
        assert_eq!(into.requests.len(), usize::from(partial));
        assert_eq!(counter(&packets, "packet_partial_checksums"), u64::from(partial));
        link.put(&with(frame.clone(), 40, &[begun[0] ^ 1]));
        packets.poll(0, &mut into);
        assert_eq!(into.requests.len(), usize::from(partial), "a wrong one is wrong");
    }
}

#[test]
fn a_peer_without_end_leaves_room_for_others() {
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    let mut into = Collect::up_to(usize::MAX);
    for _ in 0..40 {
        for _ in 0..FRAMES {
            link.put(&request4(b"again"));
        }
        packets.poll(0, &mut into);
    }
    // An eighth of what is left of 16,384.
    let taken = into.requests.len();
    assert_eq!(taken, (16_384 - taken) / 8);
    assert_eq!(counter(&packets, "packet_over_share"), (40 * FRAMES - taken) as u64);
    link.put(&request6(b"another"));
    packets.poll(0, &mut into);
    assert_eq!(into.requests.len(), taken + 1);
}

#[test]
fn each_of_several_dispatchers_has_queues_of_its_own() {
    let (mut first, links) = simulated_queues(3, 16_384);
    assert!(first.splits(3) && !first.splits(4), "each needs a queue");
    assert!(matches!(first.split(4), Err(OpenError::Range { .. })), "each needs a queue");
    let (queues, _links) = drivers(3);
    let config = PacketConfig::new("dpdk://simulated".to_owned(), OURS, 1_500);
    let config = PacketConfig { spreads: false, ..config };
    let one = Packets::new(queues, &served(), &config).unwrap();
    assert!(!one.splits(2), "all may come by one queue");
    let mut parts: Vec<Box<dyn Transport>> = first.split(2).unwrap();
    parts.insert(0, Box::new(first));
    let queues: Vec<_> = parts.iter().map(|part| counter(&**part, "packet_queues")).collect();
    assert_eq!((queues, parts.len()), (vec![2, 1], 2));
    for (index, link) in links.iter().enumerate() {
        // Whoever is asked for an address has it, and nothing of it comes to the others.
        let mut into = [0, 1].map(|_| Collect::up_to(4));
        link.put(&arp(THEIR4, OUR4));
        link.put(&request4(&[index as u8]));
        let (part, other) = (index % 2, 1 - index % 2);
        parts[other].poll(0, &mut into[other]);
        assert!(into[other].requests.is_empty() && sent(link).is_empty());
        poll_requests(&mut *parts[part], &mut into[part], 1);
        let (payload, from) = into[part].requests.pop().unwrap();
        parts[part].reply().reply(from, &payload);
        parts[part].completed(&completion(from));
        let answer =
            Sent::Datagram { from: served()[0], to: peer(THEIR4), payload: vec![index as u8] };
        let expected = [Sent::Arp { has: OUR4, to: THEIR4 }, answer].map(|it| (THEIRS, it));
        assert_eq!(sent(link).iter().map(|it| read(it)).collect::<Vec<_>>(), expected);
        assert!(links.iter().all(|link| link.take().is_none()), "it goes out where it came in");
    }
    // What one peer may have in progress is divided, too.
    let mut into = Collect::up_to(usize::MAX);
    for _ in 0..40 {
        (0..FRAMES).for_each(|_| links[1].put(&request4(b"again")));
        parts[1].poll(0, &mut into);
    }
    assert_eq!(into.requests.len(), (8_192 - into.requests.len()) / 8);
    assert!(parts.iter().all(|part| missing(&**part) == 0));
    // One that has ended says nothing of the other.
    parts[0].close();
    assert_eq!(parts[0].poll(0, &mut into), Status::Closed);
    assert_eq!(parts[1].poll(0, &mut into), Status::Open);
}

#[test]
fn nothing_is_taken_without_room_and_a_dispatcher_sleeps() {
    let (mut packets, link) = simulated(FaultConfig::default(), false);
    for index in 0..100_u8 {
        link.put(&request4(&[index]));
    }
    let mut into = Collect::up_to(10);
    packets.poll(0, &mut into);
    assert_eq!(into.requests.len(), 10);
    into.limit = 100;
    poll_requests(&mut packets, &mut into, 100);
    assert_eq!(into.payloads(), (0..100).map(|index| vec![index]).collect::<Vec<_>>());
    let (driven, link) = simulated(FaultConfig::default(), false);
    let udp = open("udp://127.0.0.1:0").unwrap();
    let echo = Echo::start(Box::new(Both::with_packets(udp, driven)));
    for round in 0..200_u8 {
        link.put(&request4(&[round]));
        let since = Instant::now();
        let answer = loop {
            match link.take() {
                Some(answer) => break read(&answer).1,
                None => assert!(since.elapsed() < LONG, "no answer"),
            }
            std::thread::yield_now();
        };
        let to = peer(THEIR4);
        assert_eq!(answer, Sent::Datagram { from: served()[0], to, payload: vec![round] });
    }
    let (transport, malformed) = echo.stop();
    assert_eq!((malformed, missing(&*transport), transport.reply().dropped()), (0, 0, 0));
}

#[test]
fn faulty_links_lose_requests_and_no_frames() {
    let faults = FaultConfig {
        seed: 7,
        drop: 0.05,
        duplicate: 0.05,
        reorder: 0.05,
        delay: 0.05,
        corrupt: 0.1,
        truncate: 0.1,
        ..FaultConfig::default()
    };
    let (mut packets, link) = simulated(faults, false);
    let reply = packets.reply();
    let (mut good, mut wrong) = (0, 0);
    for round in 0..5_000_u32 {
        let payload = [&round.to_le_bytes()[..], b"of some length"].concat();
        link.put(&if round % 2 == 0 { request4(&payload) } else { request6(&payload) });
        let mut into = Collect::up_to(64);
        packets.poll(0, &mut into);
        for (payload, peer) in &into.requests {
            let number = u32::from_le_bytes(payload[..4].try_into().unwrap());
            // The checksum sees every single bit, and every length.
            wrong += u32::from(&payload[4..] != b"of some length" || number > round);
            good += 1;
            reply.reply(*peer, payload);
            packets.completed(&completion(*peer));
        }
        for frame in sent(&link) {
            read(&frame);
        }
    }
    assert_eq!((wrong, missing(&packets), link.lost()), (0, 0, 0));
    assert!((3_500..5_000).contains(&good), "{good}");
}

#[test]
fn urls_of_packets() {
    let error = |url: &str| open(url).err().unwrap().to_string();
    for (url, part) in [
        ("xdp://10.0.0.1:4000", "is not IFACE/IP:PORT"),
        ("xdp:///10.0.0.1:4000", "is not IFACE/IP:PORT"),
        ("xdp://eth0/here", "is not IP:PORT"),
        ("xdp://eth0/10.0.0.1:4000?mode=fast", "zerocopy, copy or generic"),
        ("xdp://eth0/10.0.0.1:4000?checksum=no", "whole or partial"),
        ("xdp://eth0/10.0.0.1:4000?rcvbuf=1", "there is mode=zerocopy|copy|generic"),
        ("xdp://a/10.0.0.1:1,xdp://b/10.0.0.1:1", "one interface only"),
        ("xdp://a/10.0.0.1:1,dpdk://a/10.0.0.1:1", "one interface only"),
        ("dpdk://10.0.0.1:4000", "is not DEVICE/IP:PORT"),
        ("dpdk://net_null0/here", "is not IP:PORT"),
        ("dpdk://net_null0/10.0.0.1:4000?mode=copy", "there is args=WORD;WORD…, eal="),
        ("dpdk://net_null0/10.0.0.1:4000?args=a;;b", "words, like iface=eth0"),
        ("dpdk://net_null0/10.0.0.1:4000?eal=%", "words, like iface=eth0"),
        ("dpdk://net_null0/10.0.0.1:4000?queues=two", "a number"),
        #[cfg(not(feature = "dpdk"))]
        ("dpdk://net_null0/10.0.0.1:4000?eal=--no-huge", "net_null0: this build has no DPDK"),
        ("xdp://no-such-one/10.0.0.1:4000", "xdp://no-such-one: no such network interface"),
        ("xdp://a-name-beyond-all-limits/10.0.0.1:4000", "no such network interface"),
        ("xdp://lo/10.0.0.1:4000", "xdp://lo: not an Ethernet interface"),
        ("xdp://lo/10.0.0.1:4000?frames=1", "frames is 1, not within 64..=32768"),
    ] {
        let said = error(url);
        assert!(said.contains(part), "{url}: {said}");
    }
}
