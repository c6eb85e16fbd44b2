//! Two network namespaces and a cable of two queues between them, for as long as two threads live.
//!
//! The namespaces have no names: the kernel takes them away with the threads, whatever ends those, and
//! the cable with them.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

/// The interface of each end has this name.
pub const CABLE: &str = "cable";

/// Runs `near` in one namespace and then, with what it answers, `far` in the other. What runs in them
/// finds [`CABLE`] there, with 10.9.0.1 and fd09::1 on this side and .2 and ::2 on that. `Err`: why
/// there are no namespaces.
pub fn between<T: Send + 'static, R: Send + 'static>(
    near: impl FnOnce() -> T + Send + 'static,
    far: impl FnOnce(T) -> R + Send + 'static,
) -> Result<R, String> {
    let (tell, told) = mpsc::channel::<Result<i32, String>>();
    let (pass, passed) = mpsc::channel::<T>();
    let other = thread::spawn(move || {
        let moved = enter();
        let is_there = moved.is_ok();
        tell.send(moved).unwrap();
        is_there.then(|| passed.recv().ok()).flatten().map(far)
    });
    let far_id = told.recv().unwrap()?;
    let this = thread::spawn(move || -> Result<(), String> {
        enter()?;
        ip("link set lo up")?;
        let queues = "numtxqueues 2 numrxqueues 2";
        ip(&format!(
            "link add {CABLE} {queues} type veth peer name {CABLE} netns {far_id} {queues}"
        ))?;
        raise(1)?;
        far_raise(far_id)?;
        let _ = pass.send(near());
        Ok(())
    });
    let near_done = this.join();
    let far_done = other.join();
    match near_done {
        Ok(Ok(())) => match far_done {
            Ok(result) => Ok(result.expect("it ran")),
            Err(panic) => std::panic::resume_unwind(panic),
        },
        Ok(Err(why)) => Err(why),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// This thread gets a namespace of its own; its id.
fn enter() -> Result<i32, String> {
    // SAFETY: it changes what this thread alone sees.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(format!("no network namespace: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: it has no arguments and always answers.
    Ok(unsafe { libc::gettid() })
}

fn run(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| format!("no `ip`: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))),
    }
}

/// `ip`, in the namespace of the thread that calls.
pub fn ip(words: &str) -> Result<(), String> {
    run(Command::new("ip").args(words.split(' ')))
}

fn raise(last: u8) -> Result<(), String> {
    ip(&format!("addr add 10.9.0.{last}/24 dev {CABLE}"))?;
    ip(&format!("addr add fd09::{last}/64 dev {CABLE} nodad"))?;
    ip(&format!("link set {CABLE} up"))
}

/// Raises the cable at the other end, by a thread that goes there.
fn far_raise(id: i32) -> Result<(), String> {
    let there = std::fs::File::open(format!("/proc/self/task/{id}/ns/net"));
    let there = there.map_err(|error| error.to_string())?;
    let helper = thread::spawn(move || {
        // SAFETY: it changes what this thread alone sees.
        if unsafe { libc::setns(there.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        raise(2)
    });
    helper.join().unwrap()
}

/// Has the cable's end here make the checksums of what is sent, as it would for a device that makes
/// none.
pub fn make_checksums() {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    const SET_TX_CHECKSUM: u32 = 0x17;
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut value = Value { command: SET_TX_CHECKSUM, data: 0 };
    // SAFETY: a C struct for which all-zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(CABLE.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: for this command the kernel reads one `struct ethtool_value`, which outlives the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// A socket that takes whole frames at the cable's end here.
pub struct RawCable {
    socket: std::os::fd::OwnedFd,
    at: libc::sockaddr_ll,
}

impl RawCable {
    pub fn open() -> Self {
        use std::os::fd::FromRawFd;
        // SAFETY: plain numbers; the descriptor that comes of it is this value's.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            std::os::fd::OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: a C struct for which all-zero is a value.
        let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        at.sll_family = libc::AF_PACKET as u16;
        // SAFETY: the name ends with a zero.
        at.sll_ifindex = unsafe { libc::if_nametoindex(c"cable".as_ptr()) } as i32;
        Self { socket, at }
    }

    /// The kernel takes none that is shorter than Ethernet's header, or longer than the link's.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: frame and address are as long as said, and outlive the call.
        unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.at).cast(),
                size_of_val(&self.at) as libc::socklen_t,
            );
        }
    }
}
