//! Cores go where the work is.

use crate::common;

use common::{Daemon, Manner, Player, critical, managed, until};
use curtail_shm::session::Session;
use curtail_shm::{Ask, BoardView, Class, CoreIndex, Page, Spec, kthreads, monotonic_ns};
use rustix::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn work_gets_a_core_and_parking_frees_it() {
    let daemon = Daemon::start("work", &[]);
    let player = Player::join(&daemon.path, "worker", critical(2, 0, 1), Manner::Works);
    for round in 1..=200 {
        for kthread in 0..2 {
            player.give(kthread);
            until("the work is done", || player.done(kthread) == round);
            assert_eq!(player.cpu(kthread), managed());
        }
    }
    until("the core is free", || daemon.status()["cores"][0]["state"] == "free");
    assert!(daemon.count("grants") >= 400, "{}", daemon.status());
    drop(player);
    until("it has left", || daemon.count("left") == 1);
    let lines = daemon.end();
    assert!(lines.iter().any(|line| line.contains("`worker` (process")), "{lines:?}");
}

#[test]
fn a_burstable_core_goes_to_its_guaranteed_owner_and_back() {
    // Long enough for a thread that others hold up.
    let daemon = Daemon::start("evict", &["--grace", "1s"]);
    let hog = Player::join(&daemon.path, "hog", critical(1, 0, 1), Manner::Hogs);
    hog.give(0);
    until("the hog has the core", || hog.done(0) == 1);
    let owner = Player::join(&daemon.path, "owner", critical(1, 1, 0), Manner::Works);
    for round in 1..=100 {
        owner.give(0);
        until("the owner's work is done", || owner.done(0) == round);
        hog.give(0);
        until("the hog has the core again", || hog.done(0) == 1 + round);
    }
    assert!(hog.shared.evicted.load(Ordering::Acquire) > 0);
    assert_eq!(daemon.count("moves"), 0);
}

#[test]
fn one_that_does_not_leave_is_moved_away() {
    let daemon = Daemon::start("ladder", &[]);
    let hog = Player::join(&daemon.path, "deaf", critical(1, 0, 1), Manner::Ignores);
    hog.give(0);
    until("it has the core", || hog.done(0) == 1);
    let owner = Player::join(&daemon.path, "owner", critical(1, 1, 0), Manner::Works);
    owner.give(0);
    until("the owner's work is done", || owner.done(0) == 1);
    assert!(daemon.count("signals") >= 1 && daemon.count("moves") >= 1, "{}", daemon.status());
    drop(hog);
    let lines = daemon.end();
    assert!(lines.iter().any(|line| line.contains("does not leave its core")), "{lines:?}");
}

#[test]
fn a_batch_thread_hands_its_core_over() {
    let daemon = Daemon::start("batch", &["--grace", "1s"]);
    let spec =
        Spec { class: Class::Batch { looks: true }, kthreads: 1, guaranteed: 0, burstable: 0 };
    let page = Page::create(&spec).unwrap();
    let (_session, welcome) = Session::connect(&daemon.path, "batch", page.fd()).unwrap();
    let view = BoardView::map(welcome.board).unwrap();
    let (stop, woken) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            kthreads::rank_last().unwrap();
            kthreads::pin_this_thread(&[managed()]).unwrap();
            let mut seen = None;
            while !stop.load(Ordering::Acquire) {
                let order = view.order(CoreIndex(0));
                if order != seen && order.is_some_and(|order| view.wake(order.heir)) {
                    woken.fetch_add(1, Ordering::Release);
                }
                seen = order;
            }
        });
        let player = Player::join(&daemon.path, "worker", critical(1, 1, 0), Manner::Works);
        for round in 1..=100 {
            player.give(0);
            until("the work is done", || player.done(0) == round);
        }
        stop.store(true, Ordering::Release);
    });
    // The daemon made no call: it would have waited for a second.
    assert!(woken.load(Ordering::Acquire) > 0, "{woken:?} {}", daemon.status());
    assert!(daemon.count("by_line") >= 100 && daemon.count("by_kernel") == 0);
}

#[test]
fn an_idler_hands_its_core_over() {
    let daemon = Daemon::start("idler", &["--grace", "1s", "--idle", "poll"]);
    let player = Player::join(&daemon.path, "worker", critical(1, 1, 0), Manner::Works);
    for round in 1..=100 {
        player.give(0);
        until("the work is done", || player.done(0) == round);
    }
    let woken = daemon.status()["idlers"]["woken"].as_u64().unwrap();
    assert!(woken > 0, "{}", daemon.status());
    drop(player);
    until("the idler rests", || daemon.status()["idlers"]["look"] == false);
}

#[test]
fn a_packet_for_a_program_that_is_all_parked_brings_a_core() {
    let daemon = Daemon::start("packet", &["--linger", "1ms"]);
    let player = Player::join(&daemon.path, "server", critical(2, 1, 1), Manner::Works);
    let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
    let poller = rustix::event::eventfd(0, flags).unwrap();
    player.session.as_ref().unwrap().pass_poller(poller.as_fd()).unwrap();
    until("the daemon has it", || daemon.status()["programs"][0]["poller"] == true);
    for _ in 0..20 {
        let before = player.runs(0) + player.runs(1);
        rustix::io::write(&poller, &1_u64.to_ne_bytes()).unwrap();
        until("a kthread comes", || player.runs(0) + player.runs(1) > before);
        rustix::io::read(&poller, &mut [0; 8]).unwrap();
        until("it has parked", || daemon.status()["cores"][0]["state"] == "free");
    }
}

#[test]
fn a_timer_of_a_parked_kthread_brings_a_core() {
    let daemon = Daemon::start("timer", &["--linger", "1ms"]);
    let player = Player::join(&daemon.path, "sleeper", critical(1, 1, 0), Manner::Works);
    for _ in 0..20 {
        let before = player.runs(0);
        player.shared.page.set_next_timer_ns(0, monotonic_ns() + 3_000_000);
        until("the kthread comes", || player.runs(0) > before);
        player.shared.page.set_next_timer_ns(0, 0);
        until("it has parked", || daemon.status()["cores"][0]["state"] == "free");
    }
}

#[test]
fn kthreads_of_a_batch_program_are_granted_nothing() {
    let daemon = Daemon::start("floats", &[]);
    let class = Class::Batch { looks: false };
    let page = Page::create(&Spec { class, kthreads: 2, guaranteed: 0, burstable: 2 }).unwrap();
    let (session, welcome) = Session::connect(&daemon.path, "batch", page.fd()).unwrap();
    assert_eq!(welcome.slots, 0);
    page.add_to_inbox(0);
    let service = Player::join(&daemon.path, "service", critical(1, 1, 0), Manner::Works);
    service.give(0);
    until("the service is served", || service.done(0) == 1);
    let status = daemon.status();
    assert_eq!((&status["programs"][0]["grants"], daemon.count("demoted")), (&0.into(), 0));
    drop(session);
    until("it has left", || daemon.count("left") == 1);
}

#[test]
fn a_kthread_that_is_not_there_yet_gets_no_core() {
    let daemon = Daemon::start("early", &[]);
    let page = Page::create(&critical(1, 1, 0)).unwrap();
    page.add_to_inbox(0);
    let (_session, welcome) = Session::connect(&daemon.path, "early", page.fd()).unwrap();
    let view = BoardView::map(welcome.board).unwrap();
    let looks = daemon.count("looks");
    until("it has looked again", || daemon.count("looks") > looks + 10);
    assert_eq!((view.word(welcome.first_slot).ask(), daemon.count("grants")), (Ask::Park, 0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            page.set_tid(0, rustix::thread::gettid().as_raw_nonzero().get() as u32);
            until("it has its core", || view.word(welcome.first_slot).ask() == Ask::Run);
            assert_eq!(kthreads::allowed_cpus().unwrap(), [managed()]);
        });
    });
}

#[test]
fn what_waits_for_a_kthread_that_runs_is_no_reason_for_another_core() {
    let cpus = kthreads::allowed_cpus().unwrap();
    let two: Vec<String> = cpus.iter().rev().take(2).map(u32::to_string).collect();
    let daemon = Daemon::start("vain", &["--cores", &two.join(",")]);
    // It runs and leaves in its inbox what no other kthread could run.
    let player = Player::join(&daemon.path, "busy", critical(2, 0, 2), Manner::Hogs);
    player.give(0);
    until("it has a core", || player.done(0) == 1);
    let (looks, grants) = (daemon.count("looks"), daemon.count("grants"));
    until("it is looked at often", || daemon.count("looks") > looks + 100);
    assert_eq!((daemon.count("grants"), player.runs(1)), (grants, 0), "{}", daemon.status());
}
