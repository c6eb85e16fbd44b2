//! Sockets of one address, among which the kernel deals out what comes (`SO_REUSEPORT`): each has its
//! peers, and nothing is received for another.
//!
//! The first is bound alone, so that it finds every other socket of that address. The flag is set
//! afterwards, for the others to join it. The kernel lets no other user join.
//!
//! A classic BPF program says which socket a peer's packets belong to: a hash of the peer's address and
//! port, modulo the number of sockets that joined here. So another process of this user that joins later
//! gets nothing, where the kernel's own hash would give it a share. The program's numbers are drawn anew
//! for each group: peers can't choose ports that meet on one socket.

use crate::error::OpenError;
use crate::socket;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// What could not be had.
pub(crate) const WHAT: &str = "sockets that share a port";

/// For each of the other parts a socket beside each of these. `beside` makes them, of one socket.
pub(crate) fn split(
    sockets: &[OwnedFd],
    parts: usize,
    beside: impl Fn(&OwnedFd) -> Result<Vec<OwnedFd>, OpenError>,
) -> Result<Vec<Vec<OwnedFd>>, OpenError> {
    let mut all: Vec<Vec<OwnedFd>> = (1..parts).map(|_| Vec::new()).collect();
    for first in sockets {
        all.iter_mut().zip(beside(first)?).for_each(|(part, socket)| part.push(socket));
    }
    Ok(all)
}

/// The others of a group of `parts`, whose first is bound. `begin` makes each what that is.
pub(crate) fn join(
    first: &OwnedFd,
    kind: SocketType,
    parts: usize,
    begin: impl Fn(&OwnedFd) -> Result<(), Errno>,
) -> Result<Vec<OwnedFd>, OpenError> {
    let system = |error| OpenError::system(WHAT, error);
    let address = socket::local_address(first).map_err(system)?;
    sockopt::set_socket_reuseport(first, true).map_err(system)?;
    let join = |_| {
        let socket = socket::bind_beside(address, kind)?;
        begin(&socket).map_err(|error| OpenError::of(address, error))?;
        Ok(socket)
    };
    let others = (1..parts).map(join).collect::<Result<Vec<_>, OpenError>>()?;
    let steering = Steering::new(address, parts as u32);
    attach(first, libc::SO_ATTACH_REUSEPORT_CBPF, &steering.program()).map_err(system)?;
    Ok(others)
}

/// Lets nothing more into a socket; what it has received stays.
pub(crate) fn shut(socket: &OwnedFd) -> Result<(), Errno> {
    attach(socket, libc::SO_ATTACH_FILTER, &[op(libc::BPF_RET | libc::BPF_K, 0)])
}

/// Which socket a peer's packets belong to.
struct Steering {
    ipv6: bool,
    sockets: u32,
    factors: [u32; 3],
}

impl Steering {
    fn new(address: SocketAddr, sockets: u32) -> Self {
        let key = RandomState::new();
        // Odd, so that no bit of what is multiplied is lost.
        let factors = std::array::from_fn(|index| key.hash_one(index) as u32 | 1);
        Self { ipv6: address.is_ipv6(), sockets, factors }
    }

    /// What the program computes.
    #[cfg(test)]
    fn socket_of(&self, peer: SocketAddr) -> u32 {
        let [first, second, third] = self.factors;
        let mut hash = u32::from(peer.port());
        match peer.ip() {
            std::net::IpAddr::V4(ip) => hash = hash.wrapping_mul(first) ^ u32::from(ip),
            std::net::IpAddr::V6(ip) => {
                for word in ip.octets().chunks_exact(4) {
                    let word = u32::from_be_bytes(word.try_into().expect("four bytes"));
                    hash = hash.wrapping_mul(first) ^ word;
                }
            }
        }
        hash = hash.wrapping_mul(second);
        hash ^= hash >> 16;
        (hash.wrapping_mul(third) >> 16) % self.sockets
    }

    fn program(&self) -> Vec<libc::sock_filter> {
        use libc::*;
        let [first, second, third] = self.factors;
        let net = SKF_NET_OFF as u32;
        // Of IPv4, X is where the header ends; of IPv6, headers between are not looked behind: what is
        // there is hashed in place of the port.
        let (length, words) = match self.ipv6 {
            false => (op(BPF_LDX | BPF_B | BPF_MSH, net), 12..16),
            true => (op(BPF_LDX | BPF_W | BPF_IMM, 40), 8..24),
        };
        let mut program = vec![length, op(BPF_LD | BPF_H | BPF_IND, net)];
        for at in words.step_by(4) {
            program.extend([
                op(BPF_ALU | BPF_MUL | BPF_K, first),
                op(BPF_MISC | BPF_TAX, 0),
                op(BPF_LD | BPF_W | BPF_ABS, net + at),
                op(BPF_ALU | BPF_XOR | BPF_X, 0),
            ]);
        }
        program.extend([
            op(BPF_ALU | BPF_MUL | BPF_K, second),
            op(BPF_MISC | BPF_TAX, 0),
            op(BPF_ALU | BPF_RSH | BPF_K, 16),
            op(BPF_ALU | BPF_XOR | BPF_X, 0),
            op(BPF_ALU | BPF_MUL | BPF_K, third),
            op(BPF_ALU | BPF_RSH | BPF_K, 16),
            op(BPF_ALU | BPF_MOD | BPF_K, self.sockets),
            op(BPF_RET | BPF_A, 0),
        ]);
        program
    }
}

fn op(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn attach(
    socket: &OwnedFd,
    option: libc::c_int,
    program: &[libc::sock_filter],
) -> Result<(), Errno> {
    let wanted =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel reads one `sock_fprog`, of the length that is passed, and `len` instructions
    // from where it points. Both outlive the call, and nothing is written.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const wanted).cast(),
            size_of_val(&wanted) as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(socket::last_error()) }
}

#[cfg(test)]
mod tests;
