//! What ends in the middle of things, and what lies.

use crate::common;
use crate::process;

use common::{Daemon, Manner, Player, critical, until};
use curtail_shm::session::Session;
use curtail_shm::{Class, Page, PollPages, Spec};
use process::{Process, is_alone};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Not a test but a program, where it is started as one.
#[test]
fn player() {
    process::play();
}

#[test]
fn a_killed_program_gives_its_core_back() {
    let daemon = Daemon::start("killed", &[]);
    let waits = Player::join(&daemon.path, "waits", critical(1, 0, 1), Manner::Works);
    for round in 1..=20 {
        let mut hog = Process::start("faults::player", &daemon.path, [1, 0, 1], Manner::Hogs);
        until("the hog has the core", || daemon.status()["cores"][0]["by"]["program"] == "process");
        waits.give(0);
        hog.kill();
        until("the core goes to the other one", || waits.done(0) == round);
    }
    until("all of them are gone", || daemon.count("died") + daemon.count("left") == 20);
}

#[test]
fn programs_see_the_end_of_the_daemon_and_come_back_to_the_next() {
    let mut daemon = Daemon::start("ended", &[]);
    let player = Player::join(&daemon.path, "survivor", critical(1, 1, 0), Manner::Works);
    player.give(0);
    until("it is served", || player.done(0) == 1);
    daemon.kill();
    player.session.as_ref().unwrap().wait_for_end();
    drop(player);
    // A killed daemon leaves its socket; the next one takes it over.
    assert!(daemon.path.exists());
    daemon.again(Stdio::null());
    let player = Player::join(&daemon.path, "survivor", critical(1, 1, 0), Manner::Works);
    player.give(0);
    until("it is served again", || player.done(0) == 1);
}

/// A page that its owner can write as it likes.
struct Forged {
    fd: OwnedFd,
    start: *mut AtomicU32,
}

const WORDS: usize = 1024;

impl Forged {
    /// Of a program with so many kthreads, which wants one core.
    fn new(kthreads: u32) -> Self {
        let real = Page::create(&critical(kthreads, 0, 1)).unwrap();
        let fd = memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, WORDS as u64 * 4).unwrap();
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        let (bytes, both) = (WORDS * 4, ProtFlags::READ | ProtFlags::WRITE);
        let map = |fd: &dyn AsFd, access| {
            let flags = MapFlags::SHARED;
            // SAFETY: a new mapping where the kernel likes.
            unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, fd.as_fd(), 0) }.unwrap()
        };
        let (from, start) = (map(&real.fd(), ProtFlags::READ), map(&fd, both));
        // SAFETY: both are mapped with that size, and nothing else touches them yet.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), start.cast::<u8>(), bytes);
            munmap(from, bytes).unwrap();
        }
        Self { fd, start: start.cast() }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at < WORDS);
        // SAFETY: within the mapping, which lives as long as this; others access it by atomics.
        unsafe { &*self.start.add(at) }
    }
}

impl Drop for Forged {
    fn drop(&mut self) {
        // SAFETY: mapped with that size; no reference outlives this.
        unsafe { munmap(self.start.cast(), WORDS * 4).unwrap() };
    }
}

#[test]
fn a_million_random_words_in_a_page_harm_their_writer_only() {
    let daemon = Daemon::start("lies", &[]);
    let forged = Forged::new(7);
    let (_session, _welcome) = Session::connect(&daemon.path, "liar", forged.fd.as_fd()).unwrap();
    let honest = Player::join(&daemon.path, "honest", critical(1, 1, 0), Manner::Works);
    let mut dice = 1_u64;
    for round in 0..1_000_000_u32 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (at, value) = ((dice >> 33) as usize % WORDS, (dice >> 20) as u32);
        // States and small numbers now and then, so that more than the first check is passed.
        let value = if dice.is_multiple_of(3) { 1 + value % 2 } else { value };
        forged.word(at).store(value, Ordering::Relaxed);
        if round % 10_000 == 0 {
            honest.give(0);
            let rounds = u64::from(round / 10_000) + 1;
            until("the honest one is served", || honest.done(0) == rounds);
        }
    }
    let status = daemon.status();
    assert_eq!(status["programs"][0]["demoted"], true, "{status}");
    assert_eq!((&status["programs"][1]["demoted"], daemon.count("demoted")), (&false.into(), 1));
    let lines = daemon.end();
    assert_eq!(lines.iter().filter(|line| line.contains("guaranteed nothing")).count(), 1);
}

#[test]
fn an_evicted_kthreads_poll_word_is_raised_and_memory_that_may_end_is_refused() {
    let daemon = Daemon::start("raised", &[]);
    let pages = PollPages::create(1).unwrap();
    let hog = Player::join(&daemon.path, "hog", critical(1, 0, 1), Manner::Hogs);
    hog.session.as_ref().unwrap().pass_poll_pages(pages.fd()).unwrap();
    hog.give(0);
    until("the hog has the core", || daemon.status()["cores"][0]["by"]["program"] == "hog");
    until("its word is known", || daemon.status()["programs"][0]["poll_words"] == true);
    assert_eq!((pages.word(0).load(Ordering::Acquire), daemon.count("raised")), (0, 0));
    let waits = Player::join(&daemon.path, "waits", critical(1, 1, 0), Manner::Works);
    waits.give(0);
    until("it is served", || waits.done(0) == 1);
    assert_eq!(pages.word(0).load(Ordering::Acquire), 1);
    assert!(daemon.count("raised") >= 1);
    // A program that could cut its memory off under the daemon is dismissed.
    let page = Page::create(&critical(1, 0, 1)).unwrap();
    let (liar, _) = Session::connect(&daemon.path, "liar", page.fd()).unwrap();
    let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&open, 4096).unwrap();
    liar.pass_poll_pages(open.as_fd()).unwrap();
    until("it is dismissed", || daemon.count("turned_away") == 1);
    waits.give(0);
    until("others are served", || waits.done(0) == 2);
}

#[test]
fn two_hundred_programs_come_and_go_and_leave_nothing() {
    let daemon = Daemon::start("many", &[]);
    let open = daemon.descriptors();
    let spec = Spec { class: Class::LatencyCritical, kthreads: 5, guaranteed: 0, burstable: 1 };
    let join = |number: u32| {
        let page = Page::create(&spec).unwrap();
        let name = format!("program {number}");
        let (session, welcome) = Session::connect(&daemon.path, &name, page.fd()).unwrap();
        (session, welcome.first_slot)
    };
    let mut sessions: Vec<_> = (0..200).map(join).collect();
    let mut firsts: Vec<u32> = sessions.iter().map(|(_, first)| first.0).collect();
    firsts.sort_unstable();
    assert!(firsts.windows(2).all(|pair| pair[0] + 5 <= pair[1]), "{firsts:?}");
    assert_eq!(daemon.status()["programs"].as_array().unwrap().len(), 200);
    // Half of them go, others come.
    sessions.drain(50..150);
    until("they have left", || daemon.count("left") == 100);
    sessions.extend((200..300).map(join));
    drop(sessions);
    until("all have left", || is_alone(&daemon));
    // The session of a question may have been open when they were counted.
    until("nothing is left open", || daemon.descriptors() <= open);
    // All slots are one free range again.
    let all = Page::create(&Spec { kthreads: 1024, ..spec }).unwrap();
    drop(Session::connect(&daemon.path, "large", all.fd()).unwrap());
}

/// `CURTAIL_KILLS` says how many; a thousand take a minute.
#[test]
fn random_kills_lose_no_core() {
    let kills = std::env::var("CURTAIL_KILLS").map_or(40, |text| text.parse().unwrap());
    let mut daemon = Daemon::start("kills", &[]);
    let specs = [[1, 0, 1], [2, 1, 0], [3, 0, 2], [1, 0, 1]];
    let manner = |at: usize| if at == 0 { Manner::Hogs } else { Manner::Works };
    let start = |path: &std::path::Path, at: usize| {
        Process::start("faults::player", path, specs[at], manner(at))
    };
    let mut players: Vec<Process> = (0..4).map(|at| start(&daemon.path, at)).collect();
    let (mut dice, began) = (7_u64, Instant::now());
    for kill in 0..kills {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let who = (dice >> 33) as usize % 20;
        if who == 19 {
            daemon.kill();
            daemon.again(Stdio::null());
        } else {
            players[who % 4].kill();
        }
        let mut is_served = || {
            for (at, player) in players.iter_mut().enumerate() {
                if player.has_ended() {
                    *player = start(&daemon.path, at);
                }
            }
            daemon.count("grants") > 0
        };
        if kill % 10 == 9 {
            until("programs are served", is_served);
        } else {
            is_served();
        }
    }
    drop(players);
    until("all are gone", || is_alone(&daemon));
    println!("{kills} kills in {:?}", began.elapsed());
    let last = Player::join(&daemon.path, "last", critical(1, 1, 0), Manner::Works);
    last.give(0);
    until("the core is not lost", || last.done(0) == 1);
}
