//! Where a packet came from, as words that a program gives back.

use curtail_net::Peer;
use curtail_shm::PeerWords;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const NONE: u64 = 0;
const UDP4: u64 = 1;
const UDP6: u64 = 2;
const TCP: u64 = 3;
const LOCAL: u64 = 4;
const SHM: u64 = 5;
const PACKET4: u64 = 6;
const PACKET6: u64 = 7;

/// `kind | socket << 16 | port << 32`, then 16 bytes of address, then what IPv6 has besides.
pub(crate) fn encode(peer: Peer) -> PeerWords {
    let numbers =
        |kind, slot: u32, generation: u32| [kind, u64::from(slot), u64::from(generation), 0, 0];
    match peer {
        Peer::None => [NONE; 5],
        Peer::Udp { socket, from } => {
            let head = |kind| kind | u64::from(socket) << 16 | u64::from(from.port()) << 32;
            match from {
                SocketAddr::V4(from) => [head(UDP4), u64::from(from.ip().to_bits()), 0, 0, 0],
                SocketAddr::V6(from) => {
                    let bits = from.ip().to_bits();
                    let rest = u64::from(from.flowinfo()) << 32 | u64::from(from.scope_id());
                    [head(UDP6), (bits >> 64) as u64, bits as u64, rest, 0]
                }
            }
        }
        Peer::Tcp { connection, generation } => numbers(TCP, connection, generation),
        Peer::Shm { session, generation, tag } => {
            [SHM, u64::from(session), u64::from(generation), u64::from(tag), 0]
        }
        Peer::Packet { queue, address, hardware, from } => {
            let place = |kind| kind | u64::from(queue) << 16 | u64::from(from.port()) << 32;
            let [a, b, c, d, e, f] = hardware;
            let last = u64::from(address) << 48 | u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
            match from.ip() {
                IpAddr::V4(ip) => [place(PACKET4), u64::from(ip.to_bits()), 0, 0, last],
                IpAddr::V6(ip) => {
                    [place(PACKET6), (ip.to_bits() >> 64) as u64, ip.to_bits() as u64, 0, last]
                }
            }
        }
        Peer::Local { slot, generation } => numbers(LOCAL, slot, generation),
    }
}

/// `None`: no peer has such words.
pub(crate) fn decode(words: PeerWords) -> Option<Peer> {
    let [head, first, second, rest, last] = words;
    let (socket, port) = ((head >> 16) as u16, (head >> 32) as u16);
    let number = |word: u64| u32::try_from(word).ok();
    Some(match head & 0xffff {
        NONE => Peer::None,
        UDP4 => {
            let ip = IpAddr::V4(Ipv4Addr::from_bits(number(first)?));
            Peer::Udp { socket, from: SocketAddr::new(ip, port) }
        }
        UDP6 => {
            let ip = Ipv6Addr::from_bits(u128::from(first) << 64 | u128::from(second));
            let from = SocketAddrV6::new(ip, port, (rest >> 32) as u32, rest as u32);
            Peer::Udp { socket, from: SocketAddr::V6(from) }
        }
        TCP => Peer::Tcp { connection: number(first)?, generation: number(second)? },
        SHM => {
            let (session, generation) = (number(first)?, number(second)?);
            Peer::Shm { session, generation, tag: number(rest)? }
        }
        PACKET4 | PACKET6 => {
            let ip = match head & 0xffff {
                PACKET4 => IpAddr::V4(Ipv4Addr::from_bits(number(first)?)),
                _ => Ipv6Addr::from_bits(u128::from(first) << 64 | u128::from(second)).into(),
            };
            let [a, b, hardware @ ..] = last.to_be_bytes();
            // No packet comes from a group.
            if hardware[0] & 1 == 1 {
                return None;
            }
            let address = u16::from_be_bytes([a, b]);
            Peer::Packet { queue: socket, address, hardware, from: SocketAddr::new(ip, port) }
        }
        LOCAL => Peer::Local { slot: number(first)?, generation: number(second)? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use curtail_net::Peer;

    #[test]
    fn peers_come_back_as_they_were() {
        let udp = |socket, from: &str| Peer::Udp { socket, from: from.parse().unwrap() };
        let packet = |from: &str| Peer::Packet {
            queue: 65_535,
            address: 65_534,
            hardware: [2, 1, 0, 254, 255, 3],
            from: from.parse().unwrap(),
        };
        for peer in [
            Peer::None,
            udp(0, "127.0.0.1:1"),
            udp(65_535, "255.255.255.255:65535"),
            udp(3, "[::1]:4000"),
            udp(3, "[fe80::1%7]:9"),
            Peer::Tcp { connection: 7, generation: u32::MAX },
            Peer::Local { slot: u32::MAX, generation: 1 },
            Peer::Shm { session: 2, generation: 3, tag: u32::MAX },
            packet("10.1.2.3:4"),
            packet("[fd00::1]:65535"),
        ] {
            assert_eq!(decode(encode(peer)), Some(peer));
        }
    }

    #[test]
    fn words_of_no_peer_are_none() {
        assert_eq!(decode([8, 0, 0, 0, 0]), None);
        assert_eq!(decode([1, u64::MAX, 0, 0, 0]), None);
        let packet = |first: u64| decode([6, 1, 0, 0, first << 40]);
        assert!(packet(2).is_some() && packet(3).is_none(), "a group has no port");
        assert_eq!(decode([3, 1, 1 << 32, 0, 0]), None);
    }
}
