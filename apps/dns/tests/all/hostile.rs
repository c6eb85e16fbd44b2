//! Packets that no client means well by: whatever comes, an answer is whole or there is none.

use crate::shown::{example, query};
use dns::{Zones, respond};
use domain::base::iana::Rtype;
use domain::base::message::Message;
use proptest::prelude::*;
use std::sync::LazyLock;

static ZONES: LazyLock<Zones> = LazyLock::new(example);

/// Holds for every answer.
fn check(packet: &[u8], datagram: bool) {
    let mut out = Vec::new();
    respond(&ZONES, packet, || datagram, &mut out);
    if packet.len() < 12 || packet[2] & 0x80 != 0 {
        assert_eq!(out, b"");
        return;
    }
    assert_eq!(out[..2], packet[..2], "its id");
    assert!(out[2] & 0x80 != 0);
    let most = if datagram { 1_232 } else { 65_535 };
    assert!(out.len() <= most, "{} bytes", out.len());
    let answer = Message::from_slice(&out).unwrap();
    let (_, answers, authority, additional) = answer.sections().expect("it is whole");
    for section in [answers, authority, additional] {
        assert!(section.into_iter().all(|record| record.is_ok()));
    }
}

proptest! {
    #[test]
    fn any_bytes(packet in prop::collection::vec(any::<u8>(), 0..600), datagram: bool) {
        check(&packet, datagram);
    }

    #[test]
    fn almost_queries(
        name in "(www|sub|wild|big|some[.]big|cut[.]big|alias|x[.]y|[*])[.]example[.]com",
        rtype in prop_oneof![Just(1_u16), Just(16), Just(255), Just(43), any::<u16>()],
        payload in prop::option::of(any::<u16>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        more in prop::collection::vec(any::<u8>(), 0..40),
        datagram: bool,
    ) {
        let mut packet = query(&name, Rtype::from_int(rtype), payload);
        for (at, byte) in changes {
            let at = at.index(packet.len());
            packet[at] = byte;
        }
        if let Some(cut) = cut {
            packet.truncate(cut.index(packet.len()));
        }
        packet.extend_from_slice(&more);
        check(&packet, datagram);
    }
}

#[test]
fn names_that_never_end() {
    let head = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0";
    for name in [
        &b"\xc0\x0c"[..],
        b"\x01a\xc0\x0c",
        b"\xc0\x0e\xc0\x0c",
        b"\xc0\xff",
        b"\x40aaaa",
        b"\x3fa",
        b"",
    ] {
        let packet = [&head[..], name, b"\0\x01\0\x01"].concat();
        check(&packet, true);
        let mut out = Vec::new();
        respond(&ZONES, &packet, || true, &mut out);
        assert_eq!(out[3] & 15, 1, "FORMERR for {name:?}");
    }
    // As long as a name may be, and a label longer.
    let label = [&[63][..], &[b'a'; 63]].concat();
    let longest = [&label.repeat(3)[..], &[61], &[b'a'; 61], &[0]].concat();
    let too_long = [&label.repeat(4)[..], &[0]].concat();
    let many = [&[1, b'a'].repeat(127)[..], &[0]].concat();
    for (name, code) in [(longest, 5), (many, 5), (too_long, 1)] {
        let packet = [&head[..], &name, b"\0\x01\0\x01"].concat();
        let mut out = Vec::new();
        respond(&ZONES, &packet, || true, &mut out);
        assert_eq!(out[3] & 15, code, "{} bytes", name.len());
    }
}

#[test]
fn a_long_message_full_of_records() {
    let mut packet = query("www.example.com", Rtype::A, None);
    packet[10..12].copy_from_slice(&4_000_u16.to_be_bytes());
    for _ in 0..4_000 {
        packet.extend_from_slice(b"\xc0\x0c\0\x10\0\x01\0\0\0\0\0\0");
    }
    let mut out = Vec::new();
    respond(&ZONES, &packet, || false, &mut out);
    assert_eq!((out[3] & 15, out[7]), (0, 2), "they say nothing that matters");
}
