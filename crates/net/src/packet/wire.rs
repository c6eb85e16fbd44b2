//! What a frame is to us: a request, a question who has an address, or none of our business. Pure.
//!
//! Nothing in a frame is believed: lengths are those of the slices that are there, and checksums are
//! checked before anything is answered. What is refused is refused for one reason, which is counted.

use etherparse::checksum::Sum16BitWords;
use etherparse::icmpv6::{NdpOptionSlice, NeighborSolicitationPayloadSlice};
use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacketSlice, EtherType, Ethernet2HeaderSlice, Icmpv6Slice,
    IpNumber, Ipv4HeaderSlice, Ipv6HeaderSlice, UdpHeaderSlice,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An Ethernet address.
pub type Hardware = [u8; 6];

/// Type of an ICMPv6 message that asks who has an address.
const SOLICITATION: u8 = 135;
/// Hop limit of what no router has passed on.
const LINK_ONLY: u8 = 255;

/// Who we are.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) hardware: Hardware,
    pub(super) addresses: Vec<SocketAddr>,
    /// Largest payload.
    pub(super) limit: usize,
    /// Checksums that the sender left to its device are taken for right.
    pub(super) partial: bool,
}

/// What a frame is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen<'a> {
    /// A datagram to the address of that index.
    Request {
        address: u16,
        from: SocketAddr,
        hardware: Hardware,
        payload: &'a [u8],
        /// Its checksum was not made.
        is_partial: bool,
    },
    /// ARP: who has `ours`?
    WhoHas { ours: Ipv4Addr, theirs: Ipv4Addr, hardware: Hardware },
    /// NDP: who has `ours`? `theirs` is unspecified where the asker is about to take that address.
    Solicited { ours: Ipv6Addr, theirs: Ipv6Addr, hardware: Hardware },
}

/// Why a frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discard {
    /// Not to us, or of a protocol that is not spoken here.
    Other,
    /// Shorter than its headers say.
    Short,
    /// Headers that contradict themselves.
    Malformed,
    /// A checksum is wrong.
    Checksum,
    /// A fragment of a datagram.
    Fragment,
    /// From an address that nobody can have, or from ours.
    Forged,
    /// An empty datagram, or one beyond the limit.
    Size,
}

impl Discard {
    pub(super) const COUNT: usize = 7;
    /// Names of their counters.
    pub(super) const NAMES: [&str; Self::COUNT] = [
        "packet_not_ours",
        "packet_short_refused",
        "packet_malformed",
        "packet_checksum_errors",
        "packet_fragments_refused",
        "packet_forged_refused",
        "packet_size_refused",
    ];
}

/// Reads a frame.
pub(super) fn read<'a>(frame: &'a [u8], us: &Identity) -> Result<Seen<'a>, Discard> {
    let ethernet = Ethernet2HeaderSlice::from_slice(frame).map_err(|_| Discard::Short)?;
    let body = &frame[ethernet.slice().len()..];
    let (to, from) = (ethernet.destination(), ethernet.source());
    if to != us.hardware && !is_group(to) {
        return Err(Discard::Other);
    }
    if !is_station(from, us) {
        return Err(Discard::Forged);
    }
    match ethernet.ether_type() {
        EtherType::ARP => arp(body, us),
        // No request comes to a group.
        EtherType::IPV4 if !is_group(to) => ipv4(body, from, us),
        EtherType::IPV6 => ipv6(body, from, is_group(to), us),
        _ => Err(Discard::Other),
    }
}

fn is_group(hardware: Hardware) -> bool {
    hardware[0] & 1 == 1
}

/// Whether a frame may come from there.
fn is_station(hardware: Hardware, us: &Identity) -> bool {
    !is_group(hardware) && hardware != [0; 6] && hardware != us.hardware
}

fn arp<'a>(body: &[u8], us: &Identity) -> Result<Seen<'a>, Discard> {
    let packet = ArpPacketSlice::from_slice(body).map_err(|_| Discard::Short)?;
    let (Ok(hardware), Ok(theirs), Ok(ours)) = (
        Hardware::try_from(packet.sender_hw_addr()),
        <[u8; 4]>::try_from(packet.sender_protocol_addr()),
        <[u8; 4]>::try_from(packet.target_protocol_addr()),
    ) else {
        return Err(Discard::Malformed);
    };
    let kinds = (packet.hw_addr_type(), packet.proto_addr_type());
    if kinds != (ArpHardwareId::ETHERNET, EtherType::IPV4) {
        return Err(Discard::Malformed);
    }
    let (theirs, ours) = (Ipv4Addr::from(theirs), Ipv4Addr::from(ours));
    let has = |ip| us.addresses.iter().any(|one| one.ip() == IpAddr::V4(ip));
    if packet.operation() != ArpOperation::REQUEST || !has(ours) {
        return Err(Discard::Other);
    }
    if !is_station(hardware, us) || has(theirs) || theirs.is_broadcast() || theirs.is_multicast() {
        return Err(Discard::Forged);
    }
    Ok(Seen::WhoHas { ours, theirs, hardware })
}

fn ipv4<'a>(body: &'a [u8], hardware: Hardware, us: &Identity) -> Result<Seen<'a>, Discard> {
    let header = Ipv4HeaderSlice::from_slice(body).map_err(|_| Discard::Short)?;
    let (from, to) = (header.source_addr(), header.destination_addr());
    if !us.addresses.iter().any(|one| one.ip() == IpAddr::V4(to)) {
        return Err(Discard::Other);
    }
    let start = header.slice().len();
    let length = usize::from(header.total_len());
    // What comes behind it is padding.
    let inside = body.get(start..length).ok_or(Discard::Short)?;
    if Sum16BitWords::new().add_slice(header.slice()).ones_complement() != 0 {
        return Err(Discard::Checksum);
    }
    if header.is_fragmenting_payload() {
        return Err(Discard::Fragment);
    }
    if header.protocol() != IpNumber::UDP {
        return Err(Discard::Other);
    }
    if from.is_unspecified() || from.is_loopback() || from.is_multicast() || from.is_broadcast() {
        return Err(Discard::Forged);
    }
    let mut sum = Sum16BitWords::new();
    let sum = sum.add_4bytes(from.octets()).add_4bytes(to.octets());
    udp(inside, (from.into(), to.into()), sum, hardware, us)
}

fn ipv6<'a>(
    body: &'a [u8],
    hardware: Hardware,
    to_group: bool,
    us: &Identity,
) -> Result<Seen<'a>, Discard> {
    let header = Ipv6HeaderSlice::from_slice(body).map_err(|_| Discard::Short)?;
    let (from, to) = (header.source_addr(), header.destination_addr());
    let start = header.slice().len();
    let inside = body.get(start..start + usize::from(header.payload_length()));
    let inside = inside.ok_or(Discard::Short)?;
    if header.next_header() == IpNumber::IPV6_ICMP {
        return solicitation(inside, &header, hardware, us);
    }
    if to_group || !us.addresses.iter().any(|one| one.ip() == IpAddr::V6(to)) {
        return Err(Discard::Other);
    }
    match header.next_header() {
        IpNumber::IPV6_FRAGMENTATION_HEADER => return Err(Discard::Fragment),
        IpNumber::UDP => {}
        _ => return Err(Discard::Other),
    }
    if from.is_unspecified() || from.is_loopback() || from.is_multicast() {
        return Err(Discard::Forged);
    }
    let mut sum = Sum16BitWords::new();
    let sum = sum.add_16bytes(from.octets()).add_16bytes(to.octets());
    udp(inside, (from.into(), to.into()), sum, hardware, us)
}

/// `sum`: of both addresses.
fn udp<'a>(
    inside: &'a [u8],
    (from, to): (IpAddr, IpAddr),
    sum: Sum16BitWords,
    hardware: Hardware,
    us: &Identity,
) -> Result<Seen<'a>, Discard> {
    let header = UdpHeaderSlice::from_slice(inside).map_err(|_| Discard::Short)?;
    let (from, to) = (
        SocketAddr::new(from, header.source_port()),
        SocketAddr::new(to, header.destination_port()),
    );
    let address = us.addresses.iter().position(|one| *one == to).ok_or(Discard::Other)?;
    let start = header.slice().len();
    let datagram = inside.get(..usize::from(header.length())).ok_or(Discard::Short)?;
    let payload = datagram.get(start..).ok_or(Discard::Malformed)?;
    if from.port() == 0 || us.addresses.contains(&from) {
        return Err(Discard::Forged);
    }
    let pseudo = sum.add_2bytes([0, IpNumber::UDP.0]).add_2bytes(header.length().to_be_bytes());
    let is_partial = match header.checksum() {
        0 if from.is_ipv4() => false,
        0 => return Err(Discard::Checksum),
        _ if pseudo.clone().add_slice(datagram).ones_complement() == 0 => false,
        given if us.partial && given == !pseudo.ones_complement().to_be() => true,
        _ => return Err(Discard::Checksum),
    };
    if payload.is_empty() || payload.len() > us.limit {
        return Err(Discard::Size);
    }
    Ok(Seen::Request { address: address as u16, from, hardware, payload, is_partial })
}

/// RFC 4861, section 7.1.1: what of it is to be checked.
fn solicitation<'a>(
    inside: &[u8],
    header: &Ipv6HeaderSlice<'_>,
    hardware: Hardware,
    us: &Identity,
) -> Result<Seen<'a>, Discard> {
    let message = Icmpv6Slice::from_slice(inside).map_err(|_| Discard::Short)?;
    let (theirs, to) = (header.source_addr(), header.destination_addr());
    if (message.type_u8(), message.code_u8()) != (SOLICITATION, 0) {
        return Err(Discard::Other);
    }
    let body = NeighborSolicitationPayloadSlice::from_slice(message.payload());
    let body = body.map_err(|_| Discard::Short)?;
    let ours = body.target_address();
    let has = |ip| us.addresses.iter().any(|one| one.ip() == IpAddr::V6(ip));
    if !has(ours) {
        return Err(Discard::Other);
    }
    if header.hop_limit() != LINK_ONLY {
        return Err(Discard::Forged);
    }
    if !message.is_checksum_valid(header.source(), header.destination()) {
        return Err(Discard::Checksum);
    }
    let mut given = None;
    for option in body.options_iterator() {
        let option = option.map_err(|_| Discard::Malformed)?;
        if let NdpOptionSlice::SourceLinkLayerAddress(address) = option {
            given = Hardware::try_from(address.link_layer_address()).ok();
        }
    }
    if to != ours && to != solicited_node(ours) {
        return Err(Discard::Other);
    }
    if theirs.is_unspecified() && (given.is_some() || to == ours) {
        return Err(Discard::Malformed);
    }
    let hardware = given.unwrap_or(hardware);
    if has(theirs) || theirs.is_multicast() || theirs.is_loopback() || !is_station(hardware, us) {
        return Err(Discard::Forged);
    }
    Ok(Seen::Solicited { ours, theirs, hardware })
}

/// The group in which whoever has that address is asked for it (RFC 4291, section 2.7.1).
pub(super) fn solicited_node(of: Ipv6Addr) -> Ipv6Addr {
    let low = of.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}
