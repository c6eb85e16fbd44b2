//! Queries and what is right to answer, by RFC 1034, 1035, 2181, 2308, 4592, 6891, 8482 and 9471.

use crate::shown::{answer, example, query, shown};
use dns::respond;
use domain::base::iana::{Class, Opcode, OptRcode, Rtype};
use domain::base::message::Message;

const QUERIES: &str = include_str!("../queries.txt");

/// The cases of the table: name, type and answer.
pub(crate) fn cases() -> impl Iterator<Item = (&'static str, Rtype, String)> {
    let cases = QUERIES.split("\n\n").filter(|case| !case.starts_with('#'));
    cases.map(|case| {
        let (asked, answer) = case.trim_start().split_once('\n').unwrap_or((case, ""));
        let (name, rtype) = asked.split_once(' ').expect("a name and a type");
        (name, rtype.parse().unwrap(), format!("{}\n", answer.trim_end()))
    })
}

#[test]
fn the_table_of_queries() {
    let zones = example();
    let mut count = 0;
    for (name, rtype, right) in cases() {
        let given = shown(&answer(&zones, &query(name, rtype, Some(1_232))));
        assert_eq!(given, right, "{name} {rtype}");
        count += 1;
    }
    assert!(count > 40, "{count}");
}

#[test]
fn names_come_back_as_they_were_written() {
    let zones = example();
    for (name, rtype, right) in cases().filter(|(name, ..)| !name.contains('\\')) {
        let mixed: String = name
            .chars()
            .enumerate()
            .map(|(n, c)| if n % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
            .collect();
        let asked = query(&mixed, rtype, None);
        let given = answer(&zones, &asked);
        let question = asked.len();
        assert_eq!(given[12..question], asked[12..], "{mixed}");
        if !given[2] & 2 == 2 {
            assert_eq!(shown(&given).to_lowercase(), right.to_lowercase(), "{mixed}");
        }
    }
}

#[test]
fn what_a_datagram_does_not_take_is_asked_for_again() {
    let zones = example();
    let length = |name: &str, payload| {
        let given = answer(&zones, &query(name, Rtype::TXT, payload));
        (
            given.len(),
            given[2] & 2 != 0,
            Message::from_slice(&given).unwrap().header_counts().ancount(),
        )
    };
    let question = 12 + 17 + 4;
    // 40 texts go into no datagram, 8 into one of 1,232 bytes.
    assert_eq!(length("big.example.com", None), (question, true, 0));
    assert_eq!(length("big.example.com", Some(4_096)), (question + 11, true, 0));
    assert_eq!(length("some.big.example.com", None), (question + 5, true, 0));
    assert_eq!(length("some.big.example.com", Some(400)), (question + 5 + 11, true, 0));
    let (bytes, truncated, records) = length("some.big.example.com", Some(1_232));
    assert!(bytes > 512 && bytes <= 1_232 && !truncated && records == 8, "{bytes} {records}");

    let mut out = Vec::new();
    respond(&zones, &query("big.example.com", Rtype::TXT, None), || false, &mut out);
    assert!(out.len() > 4_000 && out[2] & 2 == 0);
    assert_eq!(shown(&out).lines().filter(|line| line.starts_with("an ")).count(), 40);
}

#[test]
fn addresses_that_do_not_fit_are_left_out_unless_nothing_works_without() {
    let zones = example();
    // Thirty servers whose addresses are nowhere else.
    let referral = answer(&zones, &query("x.cut.big.example.com", Rtype::A, None));
    assert!(shown(&referral).starts_with("NOERROR tc\n"), "{}", shown(&referral));
    let all = |text: String| text.lines().filter(|line| line.starts_with("ad ")).count();
    let mail = shown(&answer(&zones, &query("mx.big.example.com", Rtype::MX, Some(1_000))));
    assert!(mail.starts_with("NOERROR aa\n") && (1..20).contains(&all(mail.clone())), "{mail}");
    let mut out = Vec::new();
    respond(&zones, &query("mx.big.example.com", Rtype::MX, None), || false, &mut out);
    assert_eq!(all(shown(&out)), 20);
}

#[test]
fn edns_is_for_those_who_have_it() {
    let zones = example();
    let opt = |bytes: &[u8]| {
        let message = Message::from_slice(bytes).unwrap();
        let opt = message.opt()?;
        Some((opt.udp_payload_size(), opt.version(), opt.dnssec_ok(), message.opt_rcode()))
    };
    let with = query("www.example.com", Rtype::A, Some(4_096));
    let without = query("www.example.com", Rtype::A, None);
    assert_eq!(opt(&answer(&zones, &with)), Some((1_232, 0, true, OptRcode::NOERROR)));
    assert_eq!(opt(&answer(&zones, &without)), None);
    let mut later = with.clone();
    let version = with.len() - 5;
    later[version] = 1;
    assert_eq!(opt(&answer(&zones, &later)), Some((1_232, 0, true, OptRcode::BADVERS)));
    // Two of them, one that is no root's, one in a message that ends early.
    let mut twice = [&with[..], &with[with.len() - 11..]].concat();
    twice[11] = 2;
    let mut owned = [&with[..with.len() - 11], b"\xc0\x0c", &with[with.len() - 10..]].concat();
    let mut short = with[..with.len() - 1].to_vec();
    for bad in [&mut twice, &mut owned, &mut short] {
        assert_eq!(shown(&answer(&zones, bad)), "FORMERR\n");
    }
}

#[test]
fn what_is_no_query_is_told_so_or_nothing() {
    let zones = example();
    let good = query("www.example.com", Rtype::A, None);
    let with = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        answer(&zones, &message)
    };
    assert_eq!(answer(&zones, &good[..11]), b"");
    assert_eq!(with(2, 0x81), b"", "an answer gets none: two servers would never end");
    assert_eq!(shown(&with(5, 0)), "FORMERR\n", "bytes that belong to nothing");
    assert_eq!(shown(&with(5, 2)), "FORMERR\n");
    assert_eq!(shown(&with(7, 1)), "FORMERR\n");
    assert_eq!(shown(&answer(&zones, &good[..12])), "FORMERR\n");
    assert_eq!(shown(&answer(&zones, &[&good[..], b"x"].concat())), "FORMERR\n");
    for opcode in [Opcode::IQUERY, Opcode::STATUS, Opcode::NOTIFY, Opcode::UPDATE] {
        let refused = with(2, opcode.to_int() << 3);
        assert_eq!(shown(&refused), "NOTIMP\n");
        assert_eq!(refused[2] >> 3 & 15, opcode.to_int());
    }
    let class = good.len() - 1;
    for other in [Class::CH, Class::ANY] {
        assert_eq!(shown(&with(class, other.to_int() as u8)), "REFUSED\n");
    }
}
