//! Cores go where the work is.

mod common;

use common::{Daemon, Manner, Player, critical, managed, until};

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
    assert!(hog.shared.evicted.load(std::sync::atomic::Ordering::Acquire) >= 50);
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
