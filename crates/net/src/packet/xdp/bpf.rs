//! The few calls of bpf(2) that are needed: a map of sockets, a program, and its link to an
//! interface. All of it goes when its descriptors are closed, whatever ends the process. Cold path.

use super::program::Instruction;
use rustix::io::Errno;
use std::ffi::c_long;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// Of the kernel's `bpf.h`.
const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const PROG_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;
const MAP_OF_SOCKETS: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The kernel's own hook, for drivers that have none (`XDP_FLAGS_SKB_MODE`).
const GENERIC: u32 = 1 << 1;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log: [u32; 2],
    log_buffer: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// # Safety
/// `A` begins as the kernel's `union bpf_attr` does for that command, with true pointers in it that
/// live as long as the call.
unsafe fn bpf<A>(command: c_long, attributes: &A) -> Result<i32, Errno> {
    // SAFETY: the kernel reads as many bytes as are passed, takes the rest of its own structure for
    // zero, and follows the pointers of which the caller has promised that they are true.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<A>())
    };
    if answer < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(answer as i32)
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for the caller, closed on exec.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map from queues to sockets.
pub(super) fn map(queues: u32) -> Result<OwnedFd, Errno> {
    let attributes =
        MapCreate { kind: MAP_OF_SOCKETS, key_bytes: 4, value_bytes: 4, entries: queues };
    // SAFETY: `MapCreate` is the beginning of the union for this command; it has no pointers.
    unsafe { bpf(MAP_CREATE, &attributes) }.map(owned)
}

/// Frames of that queue go to that socket.
pub(super) fn enter(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let value = socket.as_raw_fd() as u32;
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: `MapUpdate` is the beginning of the union for this command; key and value are four bytes
    // each, as the map was made, and outlive the call.
    unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
}

/// Has the kernel verify and take a program.
pub(super) fn load(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let license = c"MIT OR Apache-2.0";
    let mut name = [0; 16];
    name[..11].copy_from_slice(b"curtail_xdp");
    let attributes = ProgLoad {
        kind: PROG_XDP,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        name,
        attach: ATTACH_XDP,
        ..ProgLoad::default()
    };
    // SAFETY: `ProgLoad` is the beginning of the union for this command. The instructions are as many as
    // said, the licence ends with a zero, and both outlive the call.
    unsafe { bpf(PROG_LOAD, &attributes) }.map(owned)
}

/// Has the frames of an interface go through a program, as long as the link is open.
pub(super) fn link(program: &OwnedFd, interface: u32, generic: bool) -> Result<OwnedFd, Errno> {
    let attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach: ATTACH_XDP,
        flags: if generic { GENERIC } else { 0 },
    };
    // SAFETY: `LinkCreate` is the beginning of the union for this command; it has no pointers.
    unsafe { bpf(LINK_CREATE, &attributes) }.map(owned)
}
