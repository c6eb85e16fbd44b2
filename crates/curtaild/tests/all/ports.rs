//! The daemon receives a program's packets.

use crate::common;

use common::{Daemon, critical, until};
use curtail_shm::session::{Session, SessionError};
use curtail_shm::{Answer, Ask, BoardView, KthreadEnd, Page, Rings, Slot, Word};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a kthread makes of a packet.
pub(crate) type Answerer = fn(&[u8], &mut Answer);

/// A program with a port, whose kthreads answer what comes and park.
pub(crate) struct Service {
    pub(crate) url: String,
    stop: Arc<AtomicBool>,
    session: Session,
    view: Arc<BoardView>,
    threads: Vec<JoinHandle<u64>>,
}

impl Service {
    fn start(daemon: &Daemon, kthreads: u32, answer: Answerer) -> Self {
        Self::at(daemon, "udp://127.0.0.1:0", kthreads, answer)
    }

    pub(crate) fn at(daemon: &Daemon, url: &str, kthreads: u32, answer: Answerer) -> Self {
        let page = Arc::new(Page::create(&critical(kthreads, 0, kthreads)).unwrap());
        let (session, welcome) = Session::connect(&daemon.path, "service", page.fd()).unwrap();
        let mut rings = Rings::create(kthreads).unwrap();
        let url = session.open_port(url, rings.fd()).unwrap();
        let view = Arc::new(BoardView::map(welcome.board).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..kthreads).map(|index| {
            let (page, view, stop) = (page.clone(), view.clone(), stop.clone());
            let end = rings.take(index).unwrap();
            let slot = Slot(welcome.first_slot.0 + index);
            std::thread::spawn(move || live(index, slot, end, &page, &view, &stop, answer))
        });
        let threads = threads.collect();
        Self { url, stop, session, view, threads }
    }

    fn address(&self) -> SocketAddr {
        self.url.strip_prefix("udp://").unwrap().parse().unwrap()
    }

    /// How many packets each kthread has answered.
    pub(crate) fn end(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Release);
        self.session.leave();
        let ended = |thread: JoinHandle<u64>| {
            until("the kthread ends", || {
                for slot in 0..self.view.slots() {
                    self.view.wake(Slot(slot));
                }
                thread.is_finished()
            });
            thread.join().unwrap()
        };
        self.threads.into_iter().map(ended).collect()
    }
}

fn live(
    index: u32,
    slot: Slot,
    mut end: KthreadEnd,
    page: &Page,
    view: &BoardView,
    stop: &AtomicBool,
    answer: Answerer,
) -> u64 {
    page.set_tid(index, rustix::thread::gettid().as_raw_nonzero().get() as u32);
    let (mut done, mut seen) = (0, Word::FIRST);
    page.set_parked(index, seen.generation());
    while !stop.load(Ordering::Acquire) {
        let word = view.word(slot);
        if word.ask() != Ask::Run || word == seen {
            page.set_parked(index, word.generation());
            view.sleep(slot, word, None);
            continue;
        }
        page.set_running(index, word.generation());
        while let Some(arrival) = end.arrivals.pop().unwrap() {
            let mut reply = Answer::to(arrival.peer, arrival.arrived_tsc);
            answer(arrival.payload().unwrap(), &mut reply);
            end.answers.push(reply).unwrap();
            done += 1;
        }
        seen = word;
        page.set_parked(index, word.generation());
    }
    done
}

pub(crate) fn echo(payload: &[u8], answer: &mut Answer) {
    assert!(answer.set_payload(payload));
}

fn client(address: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client
}

fn ask(client: &UdpSocket, number: u32) {
    client.send(&number.to_le_bytes()).unwrap();
    let mut buffer = [0; 2_000];
    let length = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], &number.to_le_bytes());
}

#[test]
fn packets_are_answered_whether_or_not_anybody_has_a_core() {
    let daemon = Daemon::start("port", &["--linger", "1ms"]);
    let service = Service::start(&daemon, 2, echo);
    let clients = [client(service.address()), client(service.address())];
    for number in 0..500 {
        ask(&clients[number as usize % 2], number);
    }
    // Asleep, and woken by a packet.
    for number in 0..5 {
        let sleeps = daemon.count("sleeps");
        until("the daemon sleeps", || daemon.count("sleeps") > sleeps + 5);
        ask(&clients[0], number);
    }
    let status = daemon.status();
    assert_eq!(status["programs"][0]["port"]["received"], 505, "{status}");
    assert_eq!(status["programs"][0]["port"]["answered"], 505, "{status}");
    assert_eq!(service.end().iter().sum::<u64>(), 505);
    until("it has left", || daemon.count("left") == 1);
    daemon.end();
}

#[test]
fn what_is_too_large_is_dropped_and_counted() {
    let daemon = Daemon::start("large", &[]);
    let service = Service::start(&daemon, 1, echo);
    let client = client(service.address());
    client.send(&[1; 1_900]).unwrap();
    client.send(&[2; 1_472]).unwrap();
    let mut buffer = [0; 2_000];
    assert_eq!(client.recv(&mut buffer).unwrap(), 1_472);
    assert_eq!(daemon.status()["programs"][0]["port"]["dropped"], 1);
    service.end();
}

#[test]
fn answers_that_can_not_be_demote_their_program() {
    let daemon = Daemon::start("forged", &[]);
    let forged: Answerer = |payload, answer| {
        answer.set_outcome(u16::from(payload[0]));
        answer.peer[0] = if payload[0] == 0 { u64::MAX } else { answer.peer[0] };
    };
    let (liar, honest) = (Service::start(&daemon, 1, forged), Service::start(&daemon, 1, echo));
    let victim = client(liar.address());
    victim.send(&[0]).unwrap();
    victim.send(&[77]).unwrap();
    until("it is demoted", || daemon.count("demoted") == 1);
    let client = client(honest.address());
    (0..50).for_each(|number| ask(&client, number));
    liar.end();
    honest.end();
}

#[test]
fn a_port_that_can_not_be_is_refused() {
    let daemon = Daemon::start("refuse", &[]);
    let page = Page::create(&critical(1, 0, 1)).unwrap();
    let (session, _) = Session::connect(&daemon.path, "asker", page.fd()).unwrap();
    let rings = Rings::create(1).unwrap();
    let refused = |url: &str| match session.open_port(url, rings.fd()) {
        Err(SessionError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused("ftp://127.0.0.1:0").contains("ftp"));
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("udp://{}", taken.local_addr().unwrap());
    assert!(refused(&url).contains("in use"), "{}", refused(&url));
    session.open_port("udp://127.0.0.1:0", rings.fd()).unwrap();
    assert_eq!(refused("udp://127.0.0.1:0"), "it has a port");
}
