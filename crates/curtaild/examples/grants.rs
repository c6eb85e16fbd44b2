//! How long a parked kthread waits for its core, from the moment when its timer is due: the daemon's
//! look, its decision and the hand-over, for each kind of thing that the core does meanwhile.
//!
//! `cargo run --release -p curtaild --example grants -- [ROUNDS]`, on a machine of two cores that is
//! otherwise idle: the daemon has one, what it manages is the other.
#![allow(missing_docs, reason = "a program")]

use clap::Parser;
use curtail_shm::session::Session;
use curtail_shm::{Ask, BoardView, Class, CoreIndex, Page, Slot, Spec, kthreads, monotonic_ns};
use curtaild::{Daemon, Options, Stop};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// After so long the parked kthread has work again.
const GAP_NS: u64 = 50_000;

fn main() {
    let rounds = std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("a number"));
    let cases = [
        ("halted", "halt", None),
        ("kept by an idler", "poll", None),
        ("batch that does not look", "halt", Some(false)),
        ("batch that looks", "halt", Some(true)),
    ];
    println!(
        "{:26} {:>8} {:>8} {:>8}  in us, {rounds} rounds",
        "the core is", "p50", "p99", "p99.9"
    );
    for (label, idle, batch) in cases {
        let mut waits = measure(idle, batch, rounds);
        waits.sort_unstable();
        let at = |share: f64| waits[(waits.len() as f64 * share) as usize] as f64 / 1e3;
        println!("{label:26} {:8.1} {:8.1} {:8.1}", at(0.5), at(0.99), at(0.999));
    }
}

fn measure(idle: &str, batch: Option<bool>, rounds: u32) -> Vec<u64> {
    let core = *kthreads::allowed_cpus().unwrap().last().unwrap();
    let path = std::env::temp_dir().join(format!("curtaild-grants-{}.sock", std::process::id()));
    let core = core.to_string();
    let line = ["curtaild", "--quiet", "--idle", idle, "--cores", &core, "--socket"];
    let line = line.iter().map(PathBuf::from).chain([path.clone()]);
    let stop = Stop::new().unwrap();
    let daemon = Daemon::new(&Options::parse_from(line), stop.clone()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| daemon.run().unwrap());
        if let Some(looks) = batch {
            let (path, over) = (&path, &over);
            scope.spawn(move || play_batch(path, looks, over));
        }
        let waits = scope.spawn(|| play_service(&path, rounds)).join().unwrap();
        over.store(true, Ordering::Release);
        stop.stop();
        waits
    })
}

fn join(path: &Path, class: Class, guaranteed: u32) -> (Page, Session, BoardView, Slot) {
    let page = Page::create(&Spec { class, kthreads: 1, guaranteed, burstable: 0 }).unwrap();
    let (session, welcome) = Session::connect(path, "measured", page.fd()).unwrap();
    (page, session, BoardView::map(welcome.board).unwrap(), welcome.first_slot)
}

fn play_batch(path: &Path, looks: bool, over: &AtomicBool) {
    let (_page, _session, view, _) = join(path, Class::Batch { looks }, 0);
    kthreads::rank_last().unwrap();
    kthreads::pin_this_thread(&[view.cpu(CoreIndex(0)).unwrap()]).unwrap();
    let mut seen = view.order(CoreIndex(0));
    while !over.load(Ordering::Relaxed) {
        let order = view.order(CoreIndex(0));
        if looks && order != seen {
            seen = order;
            let _ = order.is_some_and(|order| view.wake(order.heir));
        }
    }
}

fn play_service(path: &Path, rounds: u32) -> Vec<u64> {
    let (page, _session, view, slot) = join(path, Class::LatencyCritical, 1);
    page.set_tid(0, rustix::thread::gettid().as_raw_nonzero().get() as u32);
    let mut waits = Vec::with_capacity(rounds as usize);
    let (mut word, mut due_ns) = (view.word(slot), monotonic_ns() + GAP_NS);
    while waits.len() < rounds as usize {
        page.set_next_timer_ns(0, due_ns);
        page.set_parked(0, word.generation());
        let parked_at = word;
        while word == parked_at || word.ask() != Ask::Run {
            view.sleep(slot, word, None);
            word = view.word(slot);
        }
        let now_ns = monotonic_ns();
        page.set_running(0, word.generation());
        waits.push(now_ns.saturating_sub(due_ns));
        due_ns = now_ns + GAP_NS;
    }
    waits
}
