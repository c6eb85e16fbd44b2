//! The program that the kernel runs for each frame: requests for our addresses go to our sockets,
//! everything else goes on to the kernel's network. Pure: it makes instructions.
//!
//! Registers: r2 and r3 are the frame's begin and end, r6 the context; r4, r5, r7 and r8 are scratch.
//! The verifier sees each load behind a comparison with r3.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One instruction, as `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// An address that is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) address: SocketAddr,
    /// The kernel does not have it: who asks for it is to be answered here.
    pub(super) is_ours_alone: bool,
}

// Of the kernel's `bpf.h` and `bpf_common.h`.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_IMMEDIATE: u8 = 0x07;
const AND_IMMEDIATE: u8 = 0x57;
const SHIFT_LEFT: u8 = 0x67;
const JUMP: u8 = 0x05;
const JUMP_GREATER: u8 = 0x2d;
const JUMP_EQUAL: u8 = 0x16;
const JUMP_NOT_EQUAL: u8 = 0x56;
const JUMP_SET: u8 = 0x46;
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const MAP: u8 = 1;
const REDIRECT_MAP: i32 = 51;
const PASS: i32 = 2;

const ETHERNET: i16 = 14;
/// Bytes up to the end of an ARP packet, or of UDP's header behind IPv4's smallest.
const LEAST: i32 = 42;

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv4,
    Ipv6,
    Arp,
    Neighbour,
    Fragment,
    /// The list of IPv6's, with the port loaded.
    Addresses,
    Redirect,
    Pass,
    /// The next address of a list.
    Next(usize),
}

#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    labels: Vec<(Label, usize)>,
    jumps: Vec<(usize, Label)>,
    lists: usize,
}

impl Assembler {
    fn put(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: from << 4 | to, offset, immediate });
    }

    fn here(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    fn jump(&mut self, code: u8, (to, from): (u8, u8), immediate: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(code, to, from, 0, immediate);
    }

    /// On to [`Label::Pass`] where the frame is shorter than that.
    fn needs(&mut self, bytes: i32) {
        self.put(MOVE, 4, 2, 0, 0);
        self.put(ADD_IMMEDIATE, 4, 0, 0, bytes);
        self.jump(JUMP_GREATER, (4, 3), 0, Label::Pass);
    }

    /// Compares what lies at `at` with four bytes each, and goes to `label` where one differs.
    fn differs(&mut self, at: i16, bytes: &[u8], label: Label) {
        for (index, word) in bytes.chunks_exact(4).enumerate() {
            self.put(LOAD_WORD, 8, 2, at + 4 * index as i16, 0);
            let word = i32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            self.jump(JUMP_NOT_EQUAL, (8, 0), word, label);
        }
    }

    fn next(&mut self) -> Label {
        self.lists += 1;
        Label::Next(self.lists)
    }

    fn end(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels.iter().find(|(known, _)| *known == label);
            let target = target.map_or(at + 1, |(_, target)| *target);
            self.code[at].offset = (target as i64 - at as i64 - 1) as i16;
        }
        self.code
    }
}

/// Two bytes as they lie in a frame, as a load brings them.
fn half(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The program that redirects to the sockets of that map, by the queue that a frame came in by.
pub(super) fn build(served: &[Served], map: i32) -> Vec<Instruction> {
    let v4 = |one: &Served| match one.address.ip() {
        IpAddr::V4(ip) => Some((ip, one.address.port(), one.is_ours_alone)),
        IpAddr::V6(_) => None,
    };
    let v6 = |one: &Served| match one.address.ip() {
        IpAddr::V6(ip) => Some((ip, one.address.port(), one.is_ours_alone)),
        IpAddr::V4(_) => None,
    };
    let mut asm = Assembler::default();
    asm.put(MOVE, 6, 1, 0, 0);
    asm.put(LOAD_WORD, 2, 1, 0, 0);
    asm.put(LOAD_WORD, 3, 1, 4, 0);
    asm.needs(LEAST);
    asm.put(LOAD_HALF, 5, 2, 12, 0);
    for (kind, label) in [(0x0800, Label::Ipv4), (0x86dd, Label::Ipv6), (0x0806, Label::Arp)] {
        asm.jump(JUMP_EQUAL, (5, 0), half(kind), label);
    }
    asm.jump(JUMP, (0, 0), 0, Label::Pass);
    ipv4(&mut asm, served.iter().filter_map(v4));
    ipv6(&mut asm, served.iter().filter_map(v6));
    asm.here(Label::Redirect);
    asm.put(LOAD_64, 1, MAP, 0, map);
    asm.put(0, 0, 0, 0, 0);
    // The queue. Where it has no socket, the frame goes on.
    asm.put(LOAD_WORD, 2, 6, 16, 0);
    asm.put(MOVE_IMMEDIATE, 3, 0, 0, PASS);
    asm.put(CALL, 0, 0, 0, REDIRECT_MAP);
    asm.put(EXIT, 0, 0, 0, 0);
    asm.here(Label::Pass);
    asm.put(MOVE_IMMEDIATE, 0, 0, 0, PASS);
    asm.put(EXIT, 0, 0, 0, 0);
    asm.end()
}

fn ipv4(asm: &mut Assembler, served: impl Iterator<Item = (Ipv4Addr, u16, bool)> + Clone) {
    asm.here(Label::Ipv4);
    asm.put(LOAD_BYTE, 4, 2, ETHERNET + 9, 0);
    asm.jump(JUMP_NOT_EQUAL, (4, 0), libc::IPPROTO_UDP, Label::Pass);
    // A later fragment has no ports.
    asm.put(LOAD_HALF, 4, 2, ETHERNET + 6, 0);
    asm.jump(JUMP_SET, (4, 0), half(0x1fff), Label::Pass);
    // r5: the frame's begin plus the header's length.
    asm.put(LOAD_BYTE, 5, 2, ETHERNET, 0);
    asm.put(AND_IMMEDIATE, 5, 0, 0, 15);
    asm.put(SHIFT_LEFT, 5, 0, 0, 2);
    asm.put(ADD, 5, 2, 0, 0);
    asm.put(MOVE, 4, 5, 0, 0);
    asm.put(ADD_IMMEDIATE, 4, 0, 0, i32::from(ETHERNET) + 4);
    asm.jump(JUMP_GREATER, (4, 3), 0, Label::Pass);
    asm.put(LOAD_HALF, 7, 5, ETHERNET + 2, 0);
    for (ip, port, _) in served.clone() {
        let next = asm.next();
        asm.differs(ETHERNET + 16, &ip.octets(), next);
        asm.jump(JUMP_EQUAL, (7, 0), half(port), Label::Redirect);
        asm.here(next);
    }
    asm.jump(JUMP, (0, 0), 0, Label::Pass);
    asm.here(Label::Arp);
    asm.put(LOAD_HALF, 4, 2, ETHERNET + 6, 0);
    asm.jump(JUMP_NOT_EQUAL, (4, 0), half(1), Label::Pass);
    for (ip, ..) in served.filter(|one| one.2) {
        let next = asm.next();
        asm.differs(ETHERNET + 24, &ip.octets(), next);
        asm.jump(JUMP, (0, 0), 0, Label::Redirect);
        asm.here(next);
    }
    asm.jump(JUMP, (0, 0), 0, Label::Pass);
}

fn ipv6(asm: &mut Assembler, served: impl Iterator<Item = (Ipv6Addr, u16, bool)> + Clone) {
    asm.here(Label::Ipv6);
    asm.needs(62);
    asm.put(LOAD_BYTE, 7, 2, ETHERNET + 6, 0);
    asm.jump(JUMP_EQUAL, (7, 0), libc::IPPROTO_ICMPV6, Label::Neighbour);
    asm.jump(JUMP_EQUAL, (7, 0), libc::IPPROTO_FRAGMENT, Label::Fragment);
    asm.jump(JUMP_NOT_EQUAL, (7, 0), libc::IPPROTO_UDP, Label::Pass);
    asm.put(LOAD_HALF, 7, 2, ETHERNET + 42, 0);
    asm.jump(JUMP, (0, 0), 0, Label::Addresses);
    // The first fragment, which has the ports, is counted by who reads it.
    asm.here(Label::Fragment);
    asm.needs(66);
    asm.put(LOAD_BYTE, 4, 2, ETHERNET + 40, 0);
    asm.jump(JUMP_NOT_EQUAL, (4, 0), libc::IPPROTO_UDP, Label::Pass);
    asm.put(LOAD_HALF, 4, 2, ETHERNET + 42, 0);
    asm.jump(JUMP_SET, (4, 0), half(0xfff8), Label::Pass);
    asm.put(LOAD_HALF, 7, 2, ETHERNET + 50, 0);
    asm.here(Label::Addresses);
    for (ip, port, _) in served.clone() {
        let next = asm.next();
        asm.differs(ETHERNET + 24, &ip.octets(), next);
        asm.jump(JUMP_EQUAL, (7, 0), half(port), Label::Redirect);
        asm.here(next);
    }
    asm.jump(JUMP, (0, 0), 0, Label::Pass);
    asm.here(Label::Neighbour);
    asm.needs(78);
    asm.put(LOAD_BYTE, 4, 2, ETHERNET + 40, 0);
    asm.jump(JUMP_NOT_EQUAL, (4, 0), 135, Label::Pass);
    for (ip, ..) in served.filter(|one| one.2) {
        let next = asm.next();
        asm.differs(ETHERNET + 48, &ip.octets(), next);
        asm.jump(JUMP, (0, 0), 0, Label::Redirect);
        asm.here(next);
    }
    asm.jump(JUMP, (0, 0), 0, Label::Pass);
}
