//! The server under several policies, with clients in the process.

use curtail::{SafepointKind, Server, Spec};
use std::sync::Arc;
use tpcc::protocol::{Request, Status, answer, ended};
use tpcc::{Scale, Store, Tpcc, Transaction};

const REQUESTS: u64 = 3_000;

fn serve(policy: &str) {
    let store = Arc::new(Store::load(Scale::small(1)));
    let (local, client) = curtail::net::Local::new(64).unwrap();
    let server = Server::builder(Tpcc::new(store.clone()))
        .policy(Spec::preset(policy).unwrap())
        .workers(2)
        .transport(Box::new(local))
        .build()
        .unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let mut under_way = std::collections::VecDeque::new();
    let mut rolled_back = 0;
    let mut take = |ticket: curtail::net::Ticket, tag: u64| {
        let answer = ticket.wait().expect("an answer");
        assert_eq!(answer[..8], tag.to_le_bytes());
        match ended(&answer).expect("an answer of ours").0 {
            Status::Committed => {}
            Status::RolledBack => rolled_back += 1,
            other => panic!("{other:?}"),
        }
    };
    for tag in 0..REQUESTS {
        let transaction = Transaction::ALL[(tag % 5) as usize];
        let request = Request { tag, transaction, seed: tag };
        under_way.push_back((client.submit(request.encode().to_vec()).unwrap(), tag));
        if under_way.len() == 32 {
            let (ticket, tag) = under_way.pop_front().expect("32 of them");
            take(ticket, tag);
        }
    }
    for (ticket, tag) in under_way {
        take(ticket, tag);
    }
    handle.shutdown();
    let report = thread.join().unwrap();
    let names: Vec<_> = report.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["payment", "order-status", "new-order", "delivery", "stock-level"]);
    assert!(report.classes.iter().all(|class| class.completed == REQUESTS / 5));
    assert!(rolled_back > 0);
    let cuts = policy == "tq" && curtail::safepoint_kind() == SafepointKind::Clock;
    assert!(!cuts || report.preemptions > 0, "a stock-level is longer than a quantum");
    assert_eq!(store.check(), [], "{policy}");
}

#[test]
fn transactions_are_served_by_class() {
    for policy in ["tq", "darc", "fcfs", "shenango-ps"] {
        serve(policy);
    }
}

#[test]
fn what_is_no_request_is_told_so() {
    let store = Arc::new(Store::load(Scale::small(1)));
    let (local, client) = curtail::net::Local::new(8).unwrap();
    let server = Server::builder(Tpcc::new(store)).transport(Box::new(local)).build().unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run().unwrap());
    let good = Request { tag: 7, transaction: Transaction::Payment, seed: 1 }.encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        bytes
    };
    for bad in [vec![], good[..23].to_vec(), with(8, 5), with(9, 1), with(15, 1)] {
        let said = client.call(bad.clone()).unwrap();
        assert_eq!(said, answer(&bad, Status::Malformed, 0));
        assert_eq!(ended(&said), Some((Status::Malformed, 0)));
    }
    assert_eq!(Request::decode(&good).map(|request| request.tag), Some(7));
    handle.shutdown();
    thread.join().unwrap();
}
