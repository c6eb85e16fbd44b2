//! Frames of a real interface: a server on one end of a cable between two network namespaces, and
//! the kernel's own UDP on the other. Skipped, with a line, where namespaces can't be made.

use crate::common;
use common::cable::{
    Ended, SERVED, ask, ask_all, ask_from_many_ports, ask_through_faults, attack, client, in_two,
    served_by_several, served_over_a_cable,
};
use common::counter;
use common::namespace::{CABLE, between, make_checksums};
use curtail_net::packet::why_not;
use curtail_net::{OpenError, Transport, open};
use std::net::UdpSocket;

fn urls(options: &str) -> String {
    SERVED.map(|address| format!("xdp://{CABLE}/{address}{options}")).join(",")
}

/// Runs `far` at the other end of a cable at which a server with these options answers. `None`: not
/// here.
fn against<R: Send + 'static>(
    options: &'static str,
    far: impl FnOnce() -> R + Send + 'static,
) -> Option<(R, Ended)> {
    if let Some(why) = why_not() {
        eprintln!("skipped: {why}");
        return None;
    }
    served_over_a_cable(move || open(&urls(options)).unwrap(), far)
}

fn check(transport: &dyn Transport) {
    let of = |name| counter(transport, name);
    assert_eq!((of("packet_frames_missing"), of("packet_responses_dropped")), (0, 0));
    assert_eq!((of("packet_checksum_errors"), of("packet_unanswered")), (0, 0));
    assert_eq!((of("xdp_dropped_full"), of("xdp_dropped_no_frame")), (0, 0));
}

#[test]
fn requests_over_a_cable_are_answered() {
    // With 64 frames, so that each is used again and again.
    let ran = against("?frames=64", || {
        make_checksums();
        SERVED.into_iter().for_each(ask_all);
        for server in SERVED {
            let socket = client(server);
            socket.send(&[1; 3_000]).unwrap();
            assert_eq!(ask(&socket, b"after fragments"), b"after fragments");
        }
    });
    let Some(((), (transport, malformed))) = ran else { return };
    let fragments = counter(&*transport, "packet_fragments_refused");
    assert_eq!((malformed, fragments), (4, 4), "the first ones, which have ports");
    check(&*transport);
    assert_eq!(counter(&*transport, "packet_queues"), 2);
    let asked = ["packet_arp_requests", "packet_neighbour_solicitations"];
    assert!(asked.into_iter().all(|name| counter(&*transport, name) > 0));
    assert_eq!(counter(&*transport, "packet_partial_checksums"), 0);
    let url = transport.describe();
    assert!(url.starts_with("xdp://cable/10.9.0.1:4000?mode=copy,"), "{url}");
    assert_eq!(transport.local_addrs(), SERVED.map(|it| it.parse().unwrap()));
}

#[test]
fn each_of_two_dispatchers_has_a_queue() {
    if let Some(why) = why_not() {
        return eprintln!("skipped: {why}");
    }
    let open = || in_two(open(&urls("?frames=64&checksum=partial")).unwrap());
    let ran = served_by_several(open, || {
        SERVED.into_iter().for_each(ask_all);
        ask_from_many_ports();
    });
    let Some(((), ended)) = ran else { return };
    for (transport, malformed) in &ended {
        assert_eq!((*malformed, counter(&**transport, "packet_queues")), (0, 1));
        assert!(counter(&**transport, "packet_partial_checksums") > 0, "it had requests");
        check(&**transport);
    }
    assert_eq!(ended.len(), 2);
}

#[test]
fn a_cable_within_a_host_leaves_checksums_to_be_made() {
    let ran = against("?checksum=partial&mode=generic", || SERVED.into_iter().for_each(ask_all));
    let Some(((), (transport, malformed))) = ran else { return };
    assert_eq!(malformed, 0);
    check(&*transport);
    assert!(counter(&*transport, "packet_partial_checksums") > 0);
    assert!(transport.describe().contains("mode=generic"));
}

#[test]
fn hostile_frames_over_a_cable_leave_it_in_service() {
    let ran = against("?frames=64", || attack(20_000));
    let Some(((), (transport, malformed))) = ran else { return };
    assert_eq!(counter(&*transport, "packet_frames_missing"), 0);
    assert!(malformed > 1_000, "{malformed}");
}

#[test]
fn what_is_lost_doubled_late_or_cut_on_a_cable_is_no_wrong_answer() {
    let ran = against("?frames=64", || ask_through_faults(200));
    let Some(((), (transport, malformed))) = ran else { return };
    assert!(malformed > 100, "{malformed}");
    assert_eq!(counter(&*transport, "packet_frames_missing"), 0);
}

#[test]
fn what_is_wrong_with_an_interface_is_said() {
    if let Some(why) = why_not() {
        return eprintln!("skipped: {why}");
    }
    let ran = between(
        || {
            let said = |url: &str| open(url).err().unwrap().to_string();
            let first = open("xdp://cable/10.9.0.1:0").unwrap();
            assert_ne!(first.local_addrs()[0].port(), 0);
            let second = said("xdp://cable/10.9.0.1:4009");
            drop(first);
            let taken = UdpSocket::bind("10.9.0.1:4010").unwrap();
            let in_use = open("xdp://cable/10.9.0.1:4010").err().unwrap();
            drop(taken);
            let others = [
                said("xdp://cable/10.9.0.9:0"),
                said("xdp://cable/0.0.0.0:4000"),
                said("xdp://cable/10.9.0.1:4000?mode=zerocopy"),
            ];
            // All of it was given back.
            drop(open("xdp://cable/10.9.0.1:4000").unwrap());
            (second, in_use, others)
        },
        |said| said,
    );
    let Ok((second, in_use, [no_port, not_one, mode])) =
        ran.map_err(|why| eprintln!("skipped: {why}"))
    else {
        return;
    };
    assert!(second.contains("has an XDP program already"), "{second}");
    assert!(matches!(in_use, OpenError::InUse { .. }), "{in_use}");
    assert!(no_port.contains("name one"), "{no_port}");
    assert!(not_one.contains("is not the address of one host"), "{not_one}");
    assert!(mode.contains("no such mode"), "{mode}");
}
