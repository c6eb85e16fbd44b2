//! Frames by DPDK's virtual devices: one that has an end of a cable between two network namespaces, and
//! one whose other end is another of DPDK's. Skipped, with a line, where namespaces can't be made.
//!
//! DPDK starts once in a process: all tests have the same words for it, and devices of their own.

use crate::common;
use common::cable::{
    Ended, SERVED, ask_all, ask_from_many_ports, ask_through_faults, attack, in_two,
    served_by_several, served_over_a_cable,
};
use common::frames::{OURS, Sent, THEIR4, datagram, peer, read};
use common::hostile::frame_count;
use common::namespace::{CABLE, make_checksums};
use common::{Echo, LONG, counter};
use curtail_net::packet::{DpdkConfig, dpdk_queues};
use curtail_net::{Transport, open};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

const EAL: &str = "eal=--no-huge;-m;192";

/// Runs `far` at the other end of a cable, of whose end here the device of that name has the frames.
fn against<R: Send + 'static>(
    device: &'static str,
    options: &'static str,
    far: impl FnOnce() -> R + Send + 'static,
) -> Option<(R, Ended)> {
    let url = move |it| format!("dpdk://{device}/{it}?{EAL}&args=iface={CABLE};{options}");
    served_over_a_cable(move || open(&SERVED.map(url).join(",")).unwrap(), far)
}

fn check(transport: &dyn Transport, malformed: u64) {
    let of = |name| counter(transport, name);
    // The device has what its own host sends, too, questions to all among it.
    assert_eq!(malformed, of("packet_forged_refused"));
    assert_eq!((of("packet_frames_missing"), of("packet_responses_dropped")), (0, 0));
    assert_eq!((of("packet_checksum_errors"), of("packet_unanswered")), (0, 0));
    assert_eq!((of("dpdk_dropped_no_frame"), of("dpdk_send_errors")), (0, 0));
    // This device keeps none.
    assert_eq!(of("dpdk_frames_in_use"), 0);
}

#[test]
fn requests_over_a_cable_are_answered() {
    // With few frames, so that each is used again and again.
    let ran = against("net_af_packet0", "qpairs=1&frames=64", || {
        make_checksums();
        SERVED.into_iter().for_each(ask_all);
    });
    let Some(((), (transport, malformed))) = ran else { return };
    check(&*transport, malformed);
    let asked = ["packet_arp_requests", "packet_neighbour_solicitations"];
    assert!(asked.into_iter().all(|name| counter(&*transport, name) > 0));
    assert_eq!(counter(&*transport, "packet_queues"), 1);
    let url = transport.describe();
    assert!(url.starts_with("dpdk://net_af_packet0/10.9.0.1:4000,"), "{url}");
    assert_eq!(transport.local_addrs(), SERVED.map(|it| it.parse().unwrap()));
}

#[test]
fn a_device_has_several_queues() {
    let ran = against("net_af_packet1", "qpairs=2&queues=2&frames=64&checksum=partial", || {
        SERVED.into_iter().for_each(ask_all);
    });
    let Some(((), (transport, malformed))) = ran else { return };
    assert_eq!(counter(&*transport, "packet_queues"), 2);
    assert!(counter(&*transport, "packet_partial_checksums") > 0);
    check(&*transport, malformed);
}

#[test]
fn each_of_two_dispatchers_has_a_queue() {
    let url = |it| {
        let args = format!("args=iface={CABLE};qpairs=2");
        format!("dpdk://net_af_packet5/{it}?{EAL}&{args}&queues=2&frames=64&checksum=partial")
    };
    let open = move || in_two(open(&SERVED.map(url).join(",")).unwrap());
    let ran = served_by_several(open, || {
        SERVED.into_iter().for_each(ask_all);
        ask_from_many_ports();
    });
    let Some(((), ended)) = ran else { return };
    for (transport, malformed) in &ended {
        assert_eq!(counter(&**transport, "packet_queues"), 1);
        assert!(counter(&**transport, "packet_partial_checksums") > 0, "it had requests");
        check(&**transport, *malformed);
    }
    assert_eq!(ended.len(), 2);
}

#[test]
fn what_is_lost_doubled_late_or_cut_on_a_cable_is_no_wrong_answer() {
    let ran = against("net_af_packet2", "qpairs=1&frames=64", || ask_through_faults(200));
    let Some(((), (transport, malformed))) = ran else { return };
    assert!(malformed > 100, "{malformed}");
    assert_eq!(counter(&*transport, "dpdk_frames_in_use"), 0);
}

#[test]
fn hostile_frames_over_a_cable_leave_it_in_service() {
    let frames = frame_count(100_000);
    let ran = against("net_af_packet3", "qpairs=1&frames=64", move || attack(frames));
    let Some(((), (transport, malformed))) = ran else { return };
    assert!(malformed > frames / 20, "{malformed}");
    let of = |name| counter(&*transport, name);
    assert_eq!((of("packet_frames_missing"), of("dpdk_frames_in_use")), (0, 0));
}

#[test]
fn another_program_of_dpdk_is_another_end() {
    let served: SocketAddr = "10.7.0.1:4000".parse().unwrap();
    let memory = format!("socket=curtail-{};id=0", std::process::id());
    let options = format!("{EAL}&args=role=server;mac=02:00:00:00:00:01;{memory}&frames=64");
    let echo = Echo::start(open(&format!("dpdk://net_memif0/{served}?{options}")).unwrap());
    let config = DpdkConfig {
        eal: ["--no-huge", "-m", "192"].map(str::to_owned).into(),
        arguments: format!("role=client,{}", memory.replace(';', ",")),
        frames: 64,
        ..DpdkConfig::default()
    };
    let (mut queues, _) = dpdk_queues("net_memif1", &config).unwrap();
    let sender = queues[0].sender();
    let (mut answers, mut asked, since) = (Vec::new(), 0, Instant::now());
    while answers.len() < 500 {
        assert!(since.elapsed() < LONG, "{} of {asked} were answered", answers.len());
        // Until both ends have met, none goes out.
        let frame = datagram(OURS, peer(THEIR4), served, &[asked as u8; 100]);
        let went = asked < 500
            && sender.send(&mut |place| {
                place[..frame.len()].copy_from_slice(&frame);
                Some(frame.len())
            });
        asked += usize::from(went);
        queues[0].receive(8, &mut |frame| answers.push(read(frame)));
        std::thread::yield_now();
    }
    let all = answers.into_iter().enumerate().all(|(at, (_, answer))| {
        let payload = vec![at as u8; 100];
        answer == Sent::Datagram { from: served, to: peer(THEIR4), payload }
    });
    assert!(all, "in the order of the questions");
    let (transport, malformed) = echo.stop();
    assert_eq!((malformed, counter(&*transport, "packet_frames_missing")), (0, 0));
}

#[test]
fn frames_go_back_whatever_becomes_of_them() {
    // It makes frames of nothing, as many as are asked for, and sends them to nowhere.
    let config = DpdkConfig {
        eal: ["--no-huge", "-m", "192"].map(str::to_owned).into(),
        frames: 64,
        ..DpdkConfig::default()
    };
    let (mut queues, _) = dpdk_queues("net_null6", &config).unwrap();
    let queue = &mut queues[0];
    for round in 0..200 {
        let mut seen = 0;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            queue.receive(64, &mut |frame| {
                seen += 1;
                assert!(!frame.is_empty());
                if seen > round % 64 {
                    resume_unwind(Box::new("on purpose"));
                }
            })
        }));
        assert!(ended.is_err());
        let sender = queue.sender();
        assert!(!sender.send(&mut |_| None) && !sender.send(&mut |frame| Some(frame.len() + 1)));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            sender.send(&mut |_| resume_unwind(Box::new("on purpose")))
        }));
        assert!(ended.is_err());
        assert!(sender.send(&mut |frame| Some(frame.len().min(60))));
        let in_use = queue.counters().into_iter().find(|it| it.0 == "dpdk_frames_in_use");
        assert_eq!((in_use.unwrap().1, queue.frames().total - queue.frames().known), (0, 0));
    }
}

#[test]
fn what_is_wrong_with_a_device_is_said() {
    let said = |url: &str| open(url).err().unwrap().to_string();
    let null = |options: &str| said(&format!("dpdk://net_null7/192.0.2.1:4000?{EAL}{options}"));
    let there = open(&format!("dpdk://net_null7/192.0.2.1:4000?{EAL}")).unwrap();
    assert!(there.wait_fds().is_empty(), "it is polled");
    assert!(null("").contains("another transport has the device"), "{}", null(""));
    drop(there);
    // It went back, and can be had again.
    drop(open(&format!("dpdk://net_null7/192.0.2.1:4000?{EAL}")).unwrap());
    let cases = [
        (null("&queues=60000"), "queues is 60000, not within 1..=64"),
        (null("&mtu=40"), "MTU is 40, not within 576..=9216"),
        (null("&frames=32768&queues=8&mtu=9000"), "no memory for frames"),
        (said(&format!("dpdk://net_none0/192.0.2.1:4000?{EAL}")), "DPDK has no such device"),
        (said(&format!("dpdk://0000:99:00.0/192.0.2.1:4000?{EAL}")), "DPDK has no such device"),
        (said(&format!("dpdk://a,b/192.0.2.1:4000?{EAL}")), "is not DEVICE/IP:PORT"),
        (said(&format!("dpdk://net_null8/0.0.0.0:4000?{EAL}")), "is not the address of one host"),
        (said(&format!("dpdk://net_null8/192.0.2.1:0?{EAL}")), "name one"),
        (said("dpdk://net_null8/192.0.2.1:4000?eal=--no-huge"), "has started DPDK with other"),
        (said("dpdk://net_null8/192.0.2.1:4000?eal=--help"), "is no option of DPDK that a server"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{said}");
    }
}
