//! Frames by DPDK's virtual device whose other end is an interface of the kernel's. In a process of its
//! own, for the device's driver sends signals to the process. Skipped, with a line, where network
//! namespaces or interfaces can't be made.
#![cfg(feature = "dpdk")]

mod common;

use common::cable::ask;
use common::namespace::{between, ip};
use common::{Echo, LONG, counter};
use curtail_net::open;
use std::net::UdpSocket;

#[test]
fn an_interface_of_the_kernels_is_another_end() {
    let served = "10.8.0.7:4000";
    let near = move || {
        let url =
            format!("dpdk://net_tap0/{served}?eal=--no-huge;-m;64&args=iface=tapped&frames=64");
        let echo = Echo::start(open(&url).unwrap());
        // The device has the interface's own address, from which no other may come.
        ip("link set tapped address 02:00:00:00:00:02").unwrap();
        ip("addr add 10.8.0.2/24 dev tapped").unwrap();
        ip("link set tapped up").unwrap();
        let socket = UdpSocket::bind("10.8.0.2:0").unwrap();
        socket.connect(served).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        for length in 1..1_000 {
            let question: Vec<u8> = (0..length).map(|at| (at * length) as u8).collect();
            assert_eq!(ask(&socket, &question), question);
        }
        let (transport, _) = echo.stop();
        assert_eq!(counter(&*transport, "packet_frames_missing"), 0);
        drop(transport);
        assert!(ip("link show tapped").is_err(), "it went with its device");
    };
    if !std::path::Path::new("/dev/net/tun").exists() {
        return eprintln!("skipped: no /dev/net/tun");
    }
    let _ = between(near, |()| ()).map_err(|why| eprintln!("skipped: {why}"));
}
