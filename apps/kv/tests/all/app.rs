//! The application without a runtime: requests in, replies out.
#![cfg(feature = "leveldb")]

use curtail::{App, Response};
use curtail_policy::ClassId;
use kv::load::{self, Mix, RequestMaker};
use kv::protocol::{
    Checksum, MAX_LISTED, MAX_REPLY, MAX_VALUE, NO_LIMIT, Op, Opcode, Reply, Request, Status,
};
use kv::{KvApp, KvOptions};

const KEYS: u32 = 500;
const VALUE_BYTES: usize = 20;

fn app() -> KvApp {
    let options = KvOptions { keys: KEYS, value_bytes: VALUE_BYTES, ..KvOptions::default() };
    let app = KvApp::open(options).unwrap();
    app.setup().unwrap();
    app
}

fn ask(app: &KvApp, op: Op<'_>, check: impl FnOnce(&Reply<'_>)) {
    let mut request = Vec::new();
    Request { id: 77, op }.write(&mut request).unwrap();
    assert_eq!(app.classify(&request), ClassId(op.opcode().index() as u16));
    let mut response = Response::default();
    app.handle(&(), &request, &mut response);
    let reply = Reply::parse(response.as_mut_vec()).unwrap();
    assert_eq!((reply.id, reply.opcode), (77, Some(op.opcode())));
    check(&reply);
}

fn loaded(index: u32) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    load::fill_value(u64::from(index), &mut value);
    value
}

#[test]
fn reads_writes_and_deletes() {
    let app = app();
    let key = load::key(123);
    ask(&app, Op::Get { key: &key }, |reply| {
        assert_eq!((reply.status, reply.body), (Status::Ok, &loaded(123)[..]));
        assert!(reply.service_ns > 0);
    });
    ask(&app, Op::Put { key: &key, value: b"new" }, |reply| {
        assert_eq!((reply.status, reply.body), (Status::Ok, &b""[..]));
    });
    ask(&app, Op::Get { key: &key }, |reply| assert_eq!(reply.body, b"new"));
    ask(&app, Op::Delete { key: &key }, |reply| assert_eq!(reply.status, Status::Ok));
    ask(&app, Op::Get { key: &key }, |reply| {
        assert_eq!((reply.status, reply.body), (Status::NotFound, &b""[..]));
    });
    let longest = vec![9; MAX_VALUE];
    ask(&app, Op::Put { key: &key, value: &longest }, |reply| assert_eq!(reply.status, Status::Ok));
    ask(&app, Op::Get { key: &key }, |reply| assert_eq!(reply.body, longest));
}

#[test]
fn scans_count_sum_and_list() {
    let app = app();
    let expect = |from: u32, to: u32, reply: &Reply<'_>| {
        let mut sum = Checksum::default();
        (from..to).for_each(|i| sum.entry(&load::key(i), &loaded(i)));
        assert_eq!(reply.status, Status::Ok);
        assert_eq!((reply.entries, reply.checksum), (to - from, sum.value()));
        let listed: Vec<_> = (from..to).take(MAX_LISTED).map(load::key).collect();
        assert!(reply.listed().eq(listed.iter().map(|key| &key[..])));
    };
    let scan = |start, end, limit| Op::Scan { start, end, limit };
    ask(&app, scan(&[], &[], NO_LIMIT), |reply| expect(0, KEYS, reply));
    let (from, to) = (load::key(490), load::key(495));
    ask(&app, scan(&from, &to, NO_LIMIT), |reply| expect(490, 495, reply));
    ask(&app, scan(&from, &[], NO_LIMIT), |reply| expect(490, KEYS, reply));
    ask(&app, scan(&[], &to, 100), |reply| expect(0, 100, reply));
    ask(&app, scan(&to, &from, 100), |reply| expect(0, 0, reply));
    ask(&app, scan(&[], &[], 0), |reply| expect(0, 0, reply));
}

#[test]
fn a_malformed_request_gets_a_reply() {
    let app = app();
    let mut good = Vec::new();
    Request { id: 99, op: Op::Get { key: b"k" } }.write(&mut good).unwrap();
    let mut version = good.clone();
    version[1] = 200;
    for (bytes, id) in
        [(&b""[..], 0), (b"GET / HTTP/1.1\r\n\r\n", 0), (&good[..16], 99), (&version, 99)]
    {
        assert!(usize::from(app.classify(bytes).0) < app.classes().len());
        let mut response = Response::default();
        app.handle(&(), bytes, &mut response);
        let reply = Reply::parse(response.as_mut_vec()).unwrap();
        assert_eq!((reply.status, reply.id), (Status::BadRequest, id));
        assert!(!reply.body.is_empty() && reply.body.is_ascii());
    }
}

#[test]
fn refusals_replace_what_was_written() {
    let app = app();
    let mut request = Vec::new();
    Request { id: 5, op: Op::Delete { key: b"k" } }.write(&mut request).unwrap();
    let mut response = Response::default();
    response.write(b"half a repl");
    app.failed(&request, &mut response);
    let reply = Reply::parse(response.as_mut_vec()).unwrap();
    assert_eq!((reply.status, reply.id, reply.opcode), (Status::Failed, 5, Some(Opcode::Delete)));

    let mut response = Response::default();
    app.overloaded(&request, &mut response);
    let reply = Reply::parse(response.as_mut_vec()).unwrap();
    assert_eq!(
        (reply.status, reply.id, reply.opcode),
        (Status::Overloaded, 5, Some(Opcode::Delete))
    );
    for bytes in [&b""[..], b"Q", b"\xff\xff\xff"] {
        let mut response = Response::default();
        app.overloaded(bytes, &mut response);
        assert_eq!(Reply::parse(response.as_mut_vec()).unwrap().id, 0);
    }
}

#[test]
fn serves_the_mixes() {
    let app = app();
    for mix in Mix::ALL {
        let mut maker = RequestMaker::new(mix, KEYS, VALUE_BYTES);
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        let mut state = 1_u64;
        for id in 0..2_000 {
            let random = || {
                state =
                    state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                state ^ (state >> 29)
            };
            let opcode = maker.write(id, random, &mut request);
            reply.clear();
            app.serve(&request, &mut reply);
            assert!(reply.len() <= MAX_REPLY);
            let reply = Reply::parse(&reply).unwrap();
            assert_eq!((reply.id, reply.opcode), (id, Some(opcode)));
            match (opcode, reply.status) {
                (Opcode::Get, Status::NotFound) => assert_eq!(mix, Mix::ZIPPYDB),
                (Opcode::Scan, Status::Ok) => assert!(reply.entries > KEYS / 2),
                (_, status) => assert_eq!(status, Status::Ok),
            }
        }
    }
}

#[test]
fn impossible_options_are_refused() {
    let options = KvOptions { value_bytes: MAX_VALUE + 1, ..KvOptions::default() };
    assert!(KvApp::open(options).unwrap_err().to_string().contains("at most"));
}
