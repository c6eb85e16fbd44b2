//! Frames that we send, written into the frame that a driver lends. Pure.

use super::wire::Hardware;
use etherparse::icmpv6::{NdpOptionType, NeighborAdvertisementHeader};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header, Icmpv6Header, Icmpv6Type, IpNumber,
    Ipv4Header, Ipv6FlowLabel, Ipv6Header, UdpHeader,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const HOPS: u8 = 64;
/// Hop limit of neighbour discovery.
const LINK_ONLY: u8 = 255;

/// Bytes of the headers below Ethernet's, of a datagram to such an address.
pub(super) const fn headers(to: &SocketAddr) -> usize {
    UdpHeader::LEN
        + match to {
            SocketAddr::V4(_) => Ipv4Header::MIN_LEN,
            SocketAddr::V6(_) => Ipv6Header::LEN,
        }
}

/// A place in a frame.
struct Writer<'a> {
    frame: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Begins with Ethernet's header.
    fn new(frame: &'a mut [u8], from: Hardware, to: Hardware, ether_type: EtherType) -> Self {
        let mut writer = Self { frame, at: 0 };
        let header = Ethernet2Header { source: from, destination: to, ether_type };
        writer.put(&header.to_bytes());
        writer
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        // A frame that is too small is noticed at the end.
        if let Some(place) = self.frame.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }

    /// Bytes of the frame, if it holds them.
    fn end(self) -> Option<usize> {
        (self.at <= self.frame.len()).then_some(self.at)
    }
}

/// Two ends, each with its Ethernet address.
#[derive(Clone, Copy)]
pub(super) struct Ends<T> {
    pub(super) ours: (Hardware, T),
    pub(super) theirs: (Hardware, T),
}

/// A datagram. `None`: it does not fit the frame, or the ends are of two families.
pub(super) fn datagram(frame: &mut [u8], ends: Ends<SocketAddr>, payload: &[u8]) -> Option<usize> {
    let ((from_hardware, from), (to_hardware, to)) = (ends.ours, ends.theirs);
    let length = UdpHeader::LEN + payload.len();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let mut ip = Ipv4Header::new(
                u16::try_from(length).ok()?,
                HOPS,
                IpNumber::UDP,
                source.octets(),
                target.octets(),
            )
            .ok()?;
            ip.header_checksum = ip.calc_header_checksum();
            let udp = UdpHeader::with_ipv4_checksum(from.port(), to.port(), &ip, payload).ok()?;
            let mut out = Writer::new(frame, from_hardware, to_hardware, EtherType::IPV4);
            out.put(&ip.to_bytes());
            out.put(&udp.to_bytes());
            out.put(payload);
            out.end()
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let ip = ipv6(length, IpNumber::UDP, HOPS, source, target)?;
            let udp = UdpHeader::with_ipv6_checksum(from.port(), to.port(), &ip, payload).ok()?;
            let mut out = Writer::new(frame, from_hardware, to_hardware, EtherType::IPV6);
            out.put(&ip.to_bytes());
            out.put(&udp.to_bytes());
            out.put(payload);
            out.end()
        }
        _ => None,
    }
}

/// ARP: we have that address.
pub(super) fn arp(frame: &mut [u8], ends: Ends<Ipv4Addr>) -> Option<usize> {
    let mut out = Writer::new(frame, ends.ours.0, ends.theirs.0, EtherType::ARP);
    let packet = ArpEthIpv4Packet {
        operation: ArpOperation::REPLY,
        sender_mac: ends.ours.0,
        sender_ipv4: ends.ours.1.octets(),
        target_mac: ends.theirs.0,
        target_ipv4: ends.theirs.1.octets(),
    };
    out.put(&packet.to_bytes());
    out.end()
}

/// NDP: we have that address. One who asks without having an address is told by telling all.
pub(super) fn advertisement(frame: &mut [u8], ends: Ends<Ipv6Addr>) -> Option<usize> {
    const ALL_NODES: (Hardware, Ipv6Addr) =
        ([0x33, 0x33, 0, 0, 0, 1], Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let solicited = !ends.theirs.1.is_unspecified();
    let (hardware, to) = if solicited { ends.theirs } else { ALL_NODES };
    let (our_hardware, ours) = ends.ours;
    let mut body = [0_u8; 24];
    body[..16].copy_from_slice(&ours.octets());
    // The option's length is in units of eight bytes.
    body[16..18].copy_from_slice(&[NdpOptionType::TARGET_LINK_LAYER_ADDRESS.0, 1]);
    body[18..].copy_from_slice(&our_hardware);
    let kind = Icmpv6Type::NeighborAdvertisement(NeighborAdvertisementHeader {
        router: false,
        solicited,
        r#override: true,
    });
    let message =
        Icmpv6Header::with_checksum(kind, ours.octets(), to.octets(), &body).ok()?.to_bytes();
    let ip = ipv6(message.len() + body.len(), IpNumber::IPV6_ICMP, LINK_ONLY, ours, to)?;
    let mut out = Writer::new(frame, our_hardware, hardware, EtherType::IPV6);
    out.put(&ip.to_bytes());
    out.put(&message);
    out.put(&body);
    out.end()
}

fn ipv6(
    length: usize,
    next_header: IpNumber,
    hop_limit: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> Option<Ipv6Header> {
    Some(Ipv6Header {
        traffic_class: 0,
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: u16::try_from(length).ok()?,
        next_header,
        hop_limit,
        source: source.octets(),
        destination: destination.octets(),
    })
}
