//! The server by itself, without a runtime.

use curtail::{App, Class, Response};
use curtail_policy::ClassId;
use spin::Spin;
use spin::protocol::{Answer, BYTES, Request, Status};

fn server() -> Spin {
    Spin::new(vec![Class::named("short"), Class::named("long")], 500.0)
}

fn answer(request: &[u8]) -> Answer {
    let mut response = Response::default();
    server().handle(&(), request, &mut response);
    Answer::decode(response.as_bytes()).expect("every request is answered")
}

#[test]
fn the_chain_is_the_one_that_was_calibrated() {
    for iterations in [0, 1, 2, 3, 1_000, 4_096] {
        assert_eq!(spin::chain(iterations), curtail_workload::spin::spin(iterations));
    }
}

#[test]
fn a_request_comes_back() {
    for service_ns in [0, 500] {
        let request = Request { tag: 0x0123_4567_89ab_cdef, class: 1, service_ns };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        assert_eq!(answer(&request.encode()), Answer::to(&request, Status::Done));
    }
}

#[test]
fn layout_is_as_documented() {
    let bytes = Request { tag: 0x0807_0605_0403_0201, class: 0x0a09, service_ns: 0x100f_0e0d };
    let expect = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 13, 14, 15, 16];
    assert_eq!(bytes.encode(), expect);
    let overloaded = Answer::to(&bytes, Status::Overloaded).encode();
    assert_eq!(overloaded[10..12], [1, 0]);
}

#[test]
fn garbage_is_classified_and_answered() {
    let mut reserved = [0; BYTES];
    reserved[10] = 1;
    for garbage in [&b""[..], b"abc", &[7; BYTES - 1], &reserved] {
        assert_eq!(server().classify(garbage), ClassId(1));
        assert_eq!(answer(garbage).status, Status::Malformed);
    }
    assert_eq!(answer(&[7; 15]).tag, 0x0707_0707_0707_0707);
}

#[test]
fn classes_beyond_the_last_are_the_last() {
    let class = |class| Request { tag: 0, class, service_ns: 0 }.encode();
    assert_eq!(server().classify(&class(0)), ClassId(0));
    assert_eq!(server().classify(&class(9)), ClassId(1));
}

#[test]
fn overload_is_said() {
    let mut response = Response::default();
    let request = Request { tag: 5, class: 0, service_ns: 1 };
    server().overloaded(&request.encode(), &mut response);
    let answer = Answer::decode(response.as_bytes()).unwrap();
    assert_eq!((answer.tag, answer.status), (5, Status::Overloaded));
}
