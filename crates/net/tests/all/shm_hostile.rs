//! Shared memory: a client, or a server, that writes what it likes.

use crate::common;
use crate::shm::{file, join, pair, small};

use common::{Collect, completion, counter, poll_requests, poll_until};
use curtail_net::{Peer, Shm, ShmClient, Transport};
use curtail_shm::Memory;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const REQUEST_TAIL: usize = 16;
const ANSWER_HEAD: usize = 64;
const REQUESTS: usize = 512;

/// A session without a client's code.
struct Raw {
    socket: UnixStream,
    memory: Memory,
}

fn memory_of(socket: &UnixStream) -> OwnedFd {
    let mut bytes = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten().next().unwrap()
}

impl Raw {
    fn join(shm: &mut Shm) -> Self {
        let path = shm.describe().strip_prefix("shm://").unwrap().to_owned();
        let before = counter(shm, "shm_accepted");
        let socket = UnixStream::connect(path).unwrap();
        poll_until(shm, &mut Collect::default(), |shm, _, _| counter(shm, "shm_accepted") > before);
        let memory = Memory::share(memory_of(&socket), 1, 1 << 30).unwrap();
        Self { socket, memory }
    }

    fn set(&self, word: usize, value: u64) {
        self.memory.words()[word].store(value, Ordering::Release);
    }

    fn ring(&self) {
        let _ = send(&self.socket, &[0], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

#[test]
fn the_memory_cannot_be_cut_off() {
    let (mut shm, _client) = pair(&small());
    let raw = Raw::join(&mut shm);
    let fd = raw.memory.fd();
    let seals = fcntl_get_seals(fd).unwrap();
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    assert!(ftruncate(fd, 0).is_err() && ftruncate(fd, 1 << 20).is_err());
}

#[test]
fn what_cannot_be_ends_its_session_and_no_other() {
    let (mut shm, mut client) = pair(&small());
    let mut into = Collect::up_to(1_000);
    // (tail, the first word, what)
    let lies = [
        (513, 0, "more than the ring has"),
        (u64::MAX, 0, "behind the head"),
        (1, 8, "a frame beyond the tail"),
        (512, 2_048, "a frame longer than half of the ring"),
        (512, (1 << 28) - 1, "a length beyond all"),
        (512, 15 << 28, "a skip at the beginning"),
    ];
    for (count, (tail, word, what)) in (1..).zip(lies) {
        let raw = Raw::join(&mut shm);
        raw.set(REQUESTS, word);
        raw.set(REQUEST_TAIL, tail);
        raw.ring();
        poll_until(&mut shm, &mut into, |shm, _, _| counter(shm, "shm_lies") == count);
        // A reset, where its bell was not read.
        assert!(matches!((&raw.socket).read(&mut [0; 9]), Ok(0) | Err(_)), "{what}");
    }
    // A tag that has a request without an answer.
    let raw = Raw::join(&mut shm);
    raw.set(REQUEST_TAIL, 2);
    raw.ring();
    poll_until(&mut shm, &mut into, |shm, _, _| counter(shm, "shm_lies") == 7);
    assert_eq!((into.malformed, into.requests.len()), (7, 1));
    assert!(shm.reply().is_gone(into.requests[0].1));
    client.submit(b"still here").unwrap();
    poll_requests(&mut shm, &mut into, 2);
    shm.reply().reply(into.requests[1].1, b"yes");
    let mut got = Vec::new();
    client.receive(|_, answer| got.extend_from_slice(answer.unwrap())).unwrap();
    assert_eq!(got, b"yes");
}

#[test]
fn a_head_of_answers_that_cannot_be_ends_the_session() {
    let (mut shm, _client) = pair(&small());
    let raw = Raw::join(&mut shm);
    let mut into = Collect::up_to(1_000);
    let reply = shm.reply();
    raw.set(ANSWER_HEAD, 1 << 40);
    // Answers of half of the ring each: the third looks at the head.
    for tag in 0..3 {
        raw.set(REQUESTS + tag, (tag as u64) << 32);
        raw.set(REQUEST_TAIL, tag as u64 + 1);
    }
    raw.ring();
    poll_requests(&mut shm, &mut into, 3);
    for (_, peer) in &into.requests {
        reply.reply(*peer, &[0; 2_000]);
        shm.completed(&completion(*peer));
    }
    poll_until(&mut shm, &mut into, |shm, _, _| counter(shm, "shm_sessions") == 1);
}

/// The words change all the time, while the dispatcher reads them and workers answer.
#[test]
fn memory_that_never_rests_harms_its_session_only() {
    let (mut shm, mut client) = pair(&small());
    let (reply, mut into) = (shm.reply(), Collect::up_to(usize::MAX));
    let (stop, raw) = (AtomicBool::new(false), Mutex::new(Raw::join(&mut shm)));
    std::thread::scope(|scope| {
        let (stop, raw) = (&stop, &raw);
        scope.spawn(move || {
            let mut random = 1_u64;
            while !stop.load(Ordering::Relaxed) {
                let raw = raw.lock().unwrap();
                for _ in 0..64 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (random >> 33) as usize % raw.memory.words().len();
                    raw.set(at, if random & (1 << 60) == 0 { random >> 56 } else { random });
                }
                // What looks right at first, and an index that moves.
                raw.set(REQUEST_TAIL, random >> 58);
                raw.ring();
            }
        });
        let mut round = 0_u32;
        // Bounded by the time that a test may take.
        while round < 300 || counter(&shm, "shm_lies") < 3 {
            round += 1;
            // Another one where it was found out.
            if counter(&shm, "shm_sessions") < 2 {
                *raw.lock().unwrap() = Raw::join(&mut shm);
            }
            client.submit(&round.to_le_bytes()).unwrap();
            let mut own = false;
            while !own {
                shm.poll(0, &mut into);
                for (payload, peer) in into.requests.drain(..) {
                    own |= matches!(peer, Peer::Shm { session: 0, .. });
                    reply.reply(peer, &payload);
                    shm.completed(&completion(peer));
                }
            }
            let mut got = Vec::new();
            client.receive(|_, answer| got.push(answer.unwrap().to_vec())).unwrap();
            assert_eq!(got, [round.to_le_bytes()]);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn bells_without_end_and_half_closed_sockets() {
    let (mut shm, _client) = pair(&small());
    let raw = Raw::join(&mut shm);
    raw.socket.set_nonblocking(true).unwrap();
    let mut rung = 0;
    while let Ok(count) = (&raw.socket).write(&[1; 4_096]) {
        rung += count;
    }
    assert!(rung > 4_096);
    let mut into = Collect::up_to(1);
    for _ in 0..rung / 64 + 1 {
        shm.before_wait();
        shm.poll(0, &mut into);
    }
    assert!((&raw.socket).write(&[1; 64]).is_ok(), "they are read");
    assert_eq!(counter(&shm, "shm_sessions"), 2);
    raw.socket.shutdown(std::net::Shutdown::Write).unwrap();
    poll_until(&mut shm, &mut into, |shm, _, _| counter(shm, "shm_sessions") == 1);
    // A connection that goes at once is a session that ends at once.
    let path = shm.describe().strip_prefix("shm://").unwrap().to_owned();
    drop(UnixStream::connect(&path).unwrap());
    poll_until(&mut shm, &mut into, |shm, _, _| {
        counter(shm, "shm_accepted") + counter(shm, "shm_refused") == 3
            && counter(shm, "shm_sessions") == 1
    });
    drop(join(&mut shm, path.as_ref()));
}

/// What a client says to a server that passes these bytes, and this memory.
fn told(bytes: &[u8], memory: Option<&OwnedFd>) -> String {
    let path = file();
    let listener = UnixListener::bind(&path).unwrap();
    let client = {
        let path = path.clone();
        std::thread::spawn(move || ShmClient::connect(path).err().map(|error| error.to_string()))
    };
    let (socket, _) = listener.accept().unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = memory.map(|memory| [memory.as_fd()]);
    if let Some(fds) = &fds {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    }
    if !bytes.is_empty() {
        let parts = [IoSlice::new(bytes)];
        sendmsg(&socket, &parts, &mut ancillary, SendFlags::empty()).unwrap();
    }
    drop(socket);
    client.join().unwrap().expect("it is no server")
}

#[test]
fn a_client_takes_no_session_for_one_that_is_none() {
    let hello = b"CURTSHMH\0\0\0\0\0\0\0\0";
    let memory = |bytes: u64, seals| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("test", flags).unwrap();
        ftruncate(&fd, bytes).unwrap();
        fcntl_add_seals(&fd, seals).unwrap();
        fd
    };
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let right = 4_096 + 2 * 4_096;
    assert!(told(b"", None).contains("reset"));
    for bytes in [&hello[..7], b"HTTP/1.1 400 Bad", hello] {
        assert!(told(bytes, None).contains("no shm://"));
    }
    let unsealed = memory(right, SealFlags::empty());
    assert!(told(hello, Some(&unsealed)).contains("not sealed"));
    assert!(told(hello, Some(&memory(right - 1, sealed))).contains("its size"));
    let empty = memory(right, sealed);
    assert!(told(hello, Some(&empty)).contains("no session of shm://"));
    let words = Memory::share(empty.try_clone().unwrap(), 1, 1 << 20).unwrap();
    let set = |values: [u64; 3]| {
        for (word, value) in words.words().iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
        told(hello, Some(&empty))
    };
    let magic = u64::from_le_bytes(*b"CURTSHM1");
    assert!(set([magic, 2 | 8 << 32, 512]).contains("version 2"));
    assert!(set([magic, 1 | 7 << 32, 512]).contains("how many requests"));
    for ring in [0, 511, 513, 256, 1_024, 1 << 63] {
        assert!(set([magic, 1 | 8 << 32, ring]).contains("size of its rings"), "{ring}");
    }
}
