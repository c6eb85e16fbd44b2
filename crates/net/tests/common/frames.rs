//! Frames as a well-behaved host sends them, and what is wrong with those of others.

use curtail_net::packet::{
    Hardware, PacketConfig, PacketDriver, Packets, Simulated, SimulatedLink,
};
use curtail_net::{FaultConfig, Transport};
use etherparse::icmpv6::NdpOptionSlice;
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header, Icmpv6Header, Icmpv6Type, IpNumber,
    Ipv6FlowLabel, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const OURS: Hardware = [2, 0, 0, 0, 0, 1];
pub const THEIRS: Hardware = [2, 0, 0, 0, 0, 2];
pub const PORT: u16 = 4_000;
pub const OUR4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const THEIR4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const OUR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3401);
pub const THEIR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// Frames of the simulated device.
pub const FRAMES: usize = 256;

/// Served: one address of each family.
pub fn served() -> [SocketAddr; 2] {
    [(OUR4, PORT).into(), (OUR6, PORT).into()]
}

pub fn peer(ip: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(ip.into(), 5_555)
}

/// A transport over a device in memory, and the other end of its wire.
pub fn simulated(faults: FaultConfig, partial: bool) -> (Packets, SimulatedLink) {
    let (driver, link) = Simulated::new(FRAMES, 2_048, faults).unwrap();
    let name = "xdp://simulated".to_owned();
    let config = PacketConfig { partial, ..PacketConfig::new(name, OURS, 1_500) };
    (Packets::new(vec![Box::new(driver)], &served(), &config).unwrap(), link)
}

/// A transport over a device of so many queues, each with a wire of its own.
pub fn simulated_queues(count: usize, in_progress: usize) -> (Packets, Vec<SimulatedLink>) {
    let (drivers, links) = drivers(count);
    let config = PacketConfig::new("xdp://simulated".to_owned(), OURS, 1_500);
    let config = PacketConfig { in_progress, ..config };
    (Packets::new(drivers, &served(), &config).unwrap(), links)
}

/// So many queues of a device in memory, and their wires.
pub fn drivers(count: usize) -> (Vec<Box<dyn PacketDriver>>, Vec<SimulatedLink>) {
    let queue = |_| Simulated::new(FRAMES, 2_048, FaultConfig::default()).unwrap();
    (0..count).map(queue).map(|(driver, link)| (Box::new(driver) as _, link)).unzip()
}

pub fn missing(transport: &dyn Transport) -> u64 {
    super::counter(transport, "packet_frames_missing")
}

/// A datagram of theirs to us.
pub fn request(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    datagram(OURS, from, to, payload)
}

/// A datagram of theirs to that Ethernet address.
pub fn datagram(hardware: Hardware, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let ethernet = PacketBuilder::ethernet2(THEIRS, hardware);
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
        _ => panic!("two families"),
    };
    ip.udp(from.port(), to.port()).write(&mut frame, payload).unwrap();
    frame
}

pub fn request4(payload: &[u8]) -> Vec<u8> {
    request(peer(THEIR4), served()[0], payload)
}

pub fn request6(payload: &[u8]) -> Vec<u8> {
    request(peer(THEIR6), served()[1], payload)
}

/// Who has `asked`?
pub fn arp(from: Ipv4Addr, asked: Ipv4Addr) -> Vec<u8> {
    let header =
        Ethernet2Header { source: THEIRS, destination: [255; 6], ether_type: EtherType::ARP };
    let packet = ArpEthIpv4Packet {
        operation: ArpOperation::REQUEST,
        sender_mac: THEIRS,
        sender_ipv4: from.octets(),
        target_mac: [0; 6],
        target_ipv4: asked.octets(),
    };
    [&header.to_bytes()[..], &packet.to_bytes()].concat()
}

/// A neighbour solicitation of IPv6, with the asker's hardware address where it has an address.
pub fn solicitation(from: Ipv6Addr, asked: Ipv6Addr, hops: u8) -> Vec<u8> {
    let low = asked.octets();
    let group = [0x33, 0x33, 0xff, low[13], low[14], low[15]];
    let to = Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(low[13]),
        u16::from_be_bytes([low[14], low[15]]),
    );
    let mut body = asked.octets().to_vec();
    if !from.is_unspecified() {
        body.extend([1, 1]);
        body.extend(THEIRS);
    }
    let kind = Icmpv6Type::NeighborSolicitation;
    let message = Icmpv6Header::with_checksum(kind, from.octets(), to.octets(), &body).unwrap();
    let ip = Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: (message.header_len() + body.len()) as u16,
        next_header: IpNumber::IPV6_ICMP,
        hop_limit: hops,
        source: from.octets(),
        destination: to.octets(),
    };
    let header =
        Ethernet2Header { source: THEIRS, destination: group, ether_type: EtherType::IPV6 };
    [&header.to_bytes()[..], &ip.to_bytes(), &message.to_bytes(), &body].concat()
}

/// What we sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    Datagram { from: SocketAddr, to: SocketAddr, payload: Vec<u8> },
    Arp { has: Ipv4Addr, to: Ipv4Addr },
    Advertisement { has: Ipv6Addr, to: Ipv6Addr, solicited: bool },
}

/// Reads a frame of ours as its receiver does, all checksums checked; with the hardware address that
/// it goes to.
pub fn read(frame: &[u8]) -> (Hardware, Sent) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let ethernet = packet.link.unwrap().to_header().unwrap().ethernet2().unwrap();
    assert_eq!(ethernet.source, OURS);
    let ips: (IpAddr, IpAddr) = match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert!(!header.is_fragmenting_payload());
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        NetSlice::Ipv6(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        NetSlice::Arp(arp) => {
            let arp = arp.to_packet().try_eth_ipv4().unwrap();
            assert_eq!((arp.operation, arp.sender_mac), (ArpOperation::REPLY, OURS));
            assert_eq!(arp.target_mac, ethernet.destination);
            let sent = Sent::Arp { has: arp.sender_ipv4_addr(), to: arp.target_ipv4_addr() };
            return (ethernet.destination, sent);
        }
    };
    let sent = match packet.transport.unwrap() {
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let right = match ips {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    header.calc_checksum_ipv4_raw(from.octets(), to.octets(), udp.payload())
                }
                (IpAddr::V6(from), IpAddr::V6(to)) => {
                    header.calc_checksum_ipv6_raw(from.octets(), to.octets(), udp.payload())
                }
                _ => unreachable!(),
            };
            assert_eq!(header.checksum, right.unwrap());
            Sent::Datagram {
                from: SocketAddr::new(ips.0, udp.source_port()),
                to: SocketAddr::new(ips.1, udp.destination_port()),
                payload: udp.payload().to_vec(),
            }
        }
        TransportSlice::Icmpv6(message) => {
            let (IpAddr::V6(from), IpAddr::V6(to)) = ips else { unreachable!() };
            assert!(message.is_checksum_valid(from.octets(), to.octets()));
            let Icmpv6Type::NeighborAdvertisement(flags) = message.icmp_type() else {
                panic!("{:?}", message.icmp_type());
            };
            let payload = message.payload_slice().unwrap();
            let etherparse::icmpv6::Icmpv6PayloadSlice::NeighborAdvertisement(body) = payload
            else {
                unreachable!()
            };
            let mut options = body.options_iterator().map(Result::unwrap);
            let Some(NdpOptionSlice::TargetLinkLayerAddress(ours)) = options.next() else {
                panic!("no address");
            };
            assert_eq!((ours.link_layer_address(), from), (&OURS[..], body.target_address()));
            Sent::Advertisement { has: body.target_address(), to, solicited: flags.solicited }
        }
        other => panic!("{other:?}"),
    };
    (ethernet.destination, sent)
}
