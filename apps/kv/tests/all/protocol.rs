//! The codecs: what is written is read back, and any bytes are a message or an error.

use kv::protocol::{
    Checksum, MAX_KEY, MAX_LISTED, MAX_REPLY, MAX_REQUEST, MAX_VALUE, NO_LIMIT, Op, Opcode,
    ProtocolError, Reply, ReplyWriter, Request, Status, id_of, opcode_of,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Owned {
    id: u64,
    opcode: Opcode,
    key: Vec<u8>,
    value: Vec<u8>,
    limit: u32,
}

impl Owned {
    fn request(&self) -> Request<'_> {
        let (key, value) = (&self.key[..], &self.value[..]);
        let op = match self.opcode {
            Opcode::Get => Op::Get { key },
            Opcode::Put => Op::Put { key, value },
            Opcode::Delete => Op::Delete { key },
            Opcode::Scan => {
                Op::Scan { start: key, end: &value[..value.len().min(MAX_KEY)], limit: self.limit }
            }
        };
        Request { id: self.id, op }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.request().write(&mut bytes).unwrap();
        bytes
    }
}

fn opcode() -> impl Strategy<Value = Opcode> {
    prop::sample::select(&Opcode::ALL[..])
}

fn owned() -> impl Strategy<Value = Owned> {
    let key = prop_oneof![9 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), MAX_KEY)];
    let value = prop_oneof![9 => vec(any::<u8>(), 0..200), 1 => vec(any::<u8>(), MAX_VALUE)];
    (any::<u64>(), opcode(), key, value, any::<u32>())
        .prop_map(|(id, opcode, key, value, limit)| Owned { id, opcode, key, value, limit })
}

/// Any reply that a server may give, as bytes.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![9 => vec(any::<u8>(), 0..100), 1 => vec(any::<u8>(), MAX_VALUE)];
    let keys = vec(vec(any::<u8>(), 0..30), 0..=MAX_LISTED);
    (any::<u64>(), any::<u64>(), 0..4_u8, opcode(), value, keys, 0..100_u32).prop_map(
        |(id, service_ns, kind, opcode, value, keys, more)| {
            let mut out = Vec::new();
            let mut writer = ReplyWriter::new(&mut out, id, Some(opcode));
            match (kind, opcode) {
                (0, _) => writer.finish_error(Status::Failed, service_ns, "no memory"),
                (1, _) => writer.finish(Status::Overloaded, service_ns),
                (_, Opcode::Scan) => {
                    let mut sum = Checksum::default();
                    for key in &keys {
                        writer.list(key);
                        sum.entry(key, &value);
                    }
                    writer.finish_scan(service_ns, keys.len() as u32 + more, sum);
                }
                _ => {
                    writer.body().extend_from_slice(&value);
                    writer.finish(Status::Ok, service_ns);
                }
            }
            out
        },
    )
}

/// Looks at everything in a message: none of it may panic.
fn look_at(bytes: &[u8]) {
    let _ = (opcode_of(bytes), id_of(bytes));
    if let Ok(request) = Request::parse(bytes) {
        // What is accepted has one form only, so a proxy may rewrite it.
        let mut again = Vec::new();
        request.write(&mut again).unwrap();
        assert_eq!(again, bytes);
        assert_eq!(opcode_of(bytes), Some(request.op.opcode()));
        assert_eq!(id_of(bytes), request.id);
    }
    if let Ok(reply) = Reply::parse(bytes) {
        assert!(reply.listed().count() <= MAX_LISTED.min(reply.entries as usize));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn requests_come_back(owned in owned()) {
        let bytes = owned.bytes();
        prop_assert!(bytes.len() <= MAX_REQUEST);
        prop_assert_eq!(Request::parse(&bytes), Ok(owned.request()));
        look_at(&bytes);
    }

    #[test]
    fn every_shorter_or_longer_request_is_refused(owned in owned()) {
        let mut bytes = owned.bytes();
        for length in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
            prop_assert!(Request::parse(&bytes[..length]).is_err());
        }
        bytes.push(0);
        prop_assert_eq!(Request::parse(&bytes), Err(ProtocolError::Length));
    }

    #[test]
    fn any_bytes_are_harmless(bytes in vec(any::<u8>(), 0..200)) {
        look_at(&bytes);
    }

    #[test]
    fn bytes_behind_a_valid_start_are_harmless(
        magic in prop::sample::select(&b"QR"[..]), opcode in 0..6_u8, rest in vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = vec![magic, 1, opcode, 0];
        bytes.extend(rest.iter().map(|byte| byte >> (byte & 7)));
        look_at(&bytes);
    }

    #[test]
    fn changed_messages_are_harmless(
        message in prop_oneof![owned().prop_map(|o| o.bytes()), reply()],
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = message;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            look_at(&bytes);
        }
        bytes.truncate(cut.index(bytes.len()));
        look_at(&bytes);
    }

    #[test]
    fn replies_fit_and_come_back(bytes in reply()) {
        prop_assert!(bytes.len() <= MAX_REPLY);
        let reply = Reply::parse(&bytes).unwrap();
        prop_assert_eq!(&bytes[bytes.len() - reply.body.len()..], reply.body);
        for length in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
            prop_assert!(Reply::parse(&bytes[..length]).is_err());
        }
    }
}

#[test]
fn every_single_byte_change_is_harmless() {
    let mut messages: Vec<Vec<u8>> = Opcode::ALL
        .iter()
        .map(|&opcode| {
            Owned { id: 7, opcode, key: b"key".to_vec(), value: b"val".to_vec(), limit: 9 }.bytes()
        })
        .collect();
    let mut out = Vec::new();
    let mut writer = ReplyWriter::new(&mut out, 3, Some(Opcode::Scan));
    writer.list(b"a");
    writer.list(b"bc");
    writer.finish_scan(100, 2, Checksum::default());
    messages.push(out);
    for message in messages {
        for at in 0..message.len() {
            for byte in 0..=255 {
                let mut bytes = message.clone();
                bytes[at] = byte;
                look_at(&bytes);
            }
        }
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let put = Owned {
        id: 0x0102,
        opcode: Opcode::Put,
        key: b"k".to_vec(),
        value: b"vw".to_vec(),
        limit: 0,
    };
    assert_eq!(put.bytes(), b"Q\x01\x02\x00\x01\x00\x02\x00\x02\x01\x00\x00\x00\x00\x00\x00kvw");
    let scan = Owned {
        id: 1,
        opcode: Opcode::Scan,
        key: b"a".to_vec(),
        value: b"z".to_vec(),
        limit: NO_LIMIT,
    };
    assert_eq!(
        scan.bytes(),
        b"Q\x01\x04\x00\x01\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xffaz"
    );
    let mut out = Vec::new();
    let mut writer = ReplyWriter::new(&mut out, 9, Some(Opcode::Get));
    writer.body().extend_from_slice(b"value");
    writer.finish(Status::Ok, 600);
    assert_eq!(&out[..8], b"R\x01\x01\x00\x05\x00\x00\x00");
    assert_eq!(&out[8..24], b"\x09\0\0\0\0\0\0\0\x58\x02\0\0\0\0\0\0");
    assert_eq!(&out[24..], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0value");
}

#[test]
fn each_fault_has_its_error() {
    let good = Owned { id: 5, opcode: Opcode::Get, key: b"k".to_vec(), value: vec![], limit: 0 };
    let with = |at: usize, byte: u8| {
        let mut bytes = good.bytes();
        bytes[at] = byte;
        Request::parse(&bytes).unwrap_err()
    };
    assert_eq!(Request::parse(b"Q\x01\x01"), Err(ProtocolError::Short));
    assert_eq!(with(0, b'R'), ProtocolError::Magic);
    assert_eq!(with(1, 2), ProtocolError::Version);
    assert_eq!(with(2, 5), ProtocolError::Opcode);
    assert_eq!(with(3, 1), ProtocolError::NotZero);
    assert_eq!(with(4, 2), ProtocolError::Length);
    assert_eq!(with(5, 5), ProtocolError::KeyTooLong);
    assert_eq!(with(6, 1), ProtocolError::NotZero);

    let mut out = b"before".to_vec();
    let (long, longer) = (vec![0; MAX_KEY + 1], vec![0; MAX_VALUE + 1]);
    let refused = [
        (Op::Get { key: &long }, ProtocolError::KeyTooLong),
        (Op::Scan { start: b"", end: &long, limit: 1 }, ProtocolError::KeyTooLong),
        (Op::Put { key: b"", value: &longer }, ProtocolError::ValueTooLong),
    ];
    for (op, error) in refused {
        assert_eq!(Request { id: 1, op }.write(&mut out), Err(error));
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_listing_must_fill_the_body_and_not_exceed_the_entries() {
    let scan = |body: &[u8], entries| {
        let mut out = Vec::new();
        let mut writer = ReplyWriter::new(&mut out, 1, Some(Opcode::Scan));
        writer.body().extend_from_slice(body);
        writer.finish_scan(1, entries, Checksum::default());
        Reply::parse(&out).map(|reply| reply.listed().map(<[u8]>::to_vec).collect::<Vec<_>>())
    };
    assert_eq!(scan(b"\x01\0a\0\0", 2), Ok(vec![b"a".to_vec(), vec![]]));
    assert_eq!(scan(b"", 0), Ok(vec![]));
    assert_eq!(scan(b"\x01\0a", 0), Err(ProtocolError::Listing));
    assert_eq!(scan(b"\x02\0a", 1), Err(ProtocolError::Listing));
    assert_eq!(scan(b"\x01\0ab", 5), Err(ProtocolError::Listing));
    assert_eq!(scan(&[0; 2 * (MAX_LISTED + 1)], 100), Err(ProtocolError::Listing));
}

#[test]
fn the_checksum_notices_order_and_boundaries() {
    type Entry<'a> = (&'a [u8], &'a [u8]);
    let sum = |entries: &[Entry<'_>]| {
        let mut sum = Checksum::default();
        entries.iter().for_each(|(k, v)| sum.entry(k, v));
        sum.value()
    };
    let (a, b): (Entry<'_>, Entry<'_>) = ((b"a", b"1"), (b"b", b"2"));
    let sums = [
        sum(&[]),
        sum(&[a]),
        sum(&[b]),
        sum(&[a, b]),
        sum(&[b, a]),
        sum(&[(b"a1", b"")]),
        sum(&[(b"", b"a1")]),
        sum(&[(b"a\0", b"1")]),
        sum(&[(b"", b"")]),
    ];
    for (i, one) in sums.iter().enumerate() {
        assert!(!sums[..i].contains(one), "{i}");
    }
    assert_eq!(sums[0], 0);
}
