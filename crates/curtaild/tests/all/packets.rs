//! The daemon has an interface: hostile, cut, doubled and late frames on a cable between two network
//! namespaces. Skipped, with a line, where those can't be made.

use crate::common::Daemon;
use crate::ports::{Service, echo};
use crate::wire::cable::{SERVED, ask_all, ask_through_faults, attack};
use crate::wire::namespace::{between, make_checksums};
use serde_json::Value;
use std::sync::mpsc::channel;

/// A program echoes by these URLs, on this interface, while `far` runs at the other end; what the
/// daemon says of the port afterwards. `None`: not here.
fn served_by_the_daemon(
    name: &'static str,
    interface: &'static str,
    urls: String,
    far: impl FnOnce() + Send + 'static,
) -> Option<Value> {
    let near = move || {
        let (end, ends) = channel();
        let (tell, told) = channel();
        // The daemon, a process, is started in the namespace of this thread.
        std::thread::spawn(move || {
            let daemon = Daemon::start(name, &["--interfaces", interface]);
            let service = Service::at(&daemon, &urls, 2, echo);
            tell.send(Value::Null).unwrap();
            ends.recv().unwrap();
            let status = daemon.status();
            service.end();
            daemon.end();
            tell.send(status).unwrap();
        });
        assert_eq!(told.recv(), Ok(Value::Null));
        (end, told)
    };
    let ran = between(near, |(end, told)| {
        far();
        end.send(()).unwrap();
        told.recv().unwrap()
    });
    let status = ran.map_err(|why| eprintln!("skipped: {why}")).ok()?;
    assert_eq!(status["counts"]["demoted"], 0, "{status}");
    let port = status["programs"][0]["port"].clone();
    assert_eq!(port["counters"]["packet_frames_missing"], 0, "{port}");
    assert!(port["answered"].as_u64() > Some(1_000), "{port}");
    Some(port)
}

fn by_xdp(name: &'static str, far: impl FnOnce() + Send + 'static) -> Option<Value> {
    if let Some(why) = curtail_net::packet::why_not() {
        eprintln!("skipped: {why}");
        return None;
    }
    let urls = SERVED.map(|address| format!("xdp://cable/{address}?frames=64"));
    served_by_the_daemon(name, "xdp://cable", urls.join(","), far)
}

#[test]
fn packets_for_several_addresses_are_answered() {
    let far = || {
        make_checksums();
        SERVED.into_iter().for_each(ask_all);
    };
    let Some(port) = by_xdp("wire", far) else { return };
    assert_eq!((&port["received"], &port["dropped"]), (&port["answered"], &0.into()), "{port}");
    assert_eq!(port["counters"]["packet_responses_dropped"], 0, "{port}");
    assert!(port["counters"]["packet_arp_requests"].as_u64() > Some(0), "{port}");
}

#[test]
fn hostile_packets_change_nothing_and_are_counted() {
    let Some(port) = by_xdp("hostile", || attack(20_000)) else { return };
    let refused = ["short_refused", "malformed", "checksum_errors", "forged_refused"];
    let refused = refused.map(|name| port["counters"][format!("packet_{name}")].as_u64().unwrap());
    assert!(refused.iter().all(|&count| count > 0), "{port}");
    assert!(port["dropped"].as_u64() >= Some(refused.iter().sum()), "{port}");
}

#[test]
fn packets_lost_doubled_late_or_cut_are_no_wrong_answer() {
    by_xdp("faults", || ask_through_faults(200));
}

#[test]
#[cfg(feature = "dpdk")]
fn hostile_packets_by_dpdk_change_nothing() {
    const DEVICE: &str = "dpdk://net_af_packet0?args=iface=cable&eal=--no-huge;-m;64";
    let urls = SERVED.map(|address| format!("dpdk://net_af_packet0/{address}"));
    served_by_the_daemon("wire-dpdk", DEVICE, urls.join(","), || attack(5_000));
}
