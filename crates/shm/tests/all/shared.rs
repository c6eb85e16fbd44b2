//! The two memories and the session, with hostile peers.

use curtail_shm::session::{Listener, Request, Session, SessionError};
use curtail_shm::{
    Ask, Board, BoardView, Class, CoreIndex, MapError, Order, Page, PageLine, PageView, Slot, Spec,
    Word,
};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

const SPEC: Spec = Spec { class: Class::LatencyCritical, kthreads: 3, guaranteed: 1, burstable: 2 };
const INTERVAL: Duration = Duration::from_micros(5);

fn board() -> (Board, BoardView) {
    let board = Board::create(&[4, 7], 8, INTERVAL).unwrap();
    let view = BoardView::map(board.fd().try_clone_to_owned().unwrap()).unwrap();
    (board, view)
}

fn page() -> (Page, PageView) {
    let page = Page::create(&SPEC).unwrap();
    let view = PageView::map(page.fd().try_clone_to_owned().unwrap()).unwrap();
    (page, view)
}

/// Memory with that at its beginning.
fn forged(begin: &[u8], bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("forged", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = std::fs::File::from(fd);
    file.write_all(begin).unwrap();
    ftruncate(&file, bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

const SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

#[test]
fn programs_see_what_the_daemon_writes() {
    let (board, view) = board();
    assert_eq!((view.cores(), view.slots(), view.interval_ns()), (2, 8, 5_000));
    assert_eq!((view.cpu(CoreIndex(1)), view.cpu(CoreIndex(2))), (Some(7), None));
    assert_eq!((view.word(Slot(5)), view.core(Slot(5))), (Word::FIRST, None));
    let run = board.grant(Slot(5), CoreIndex(1));
    assert_eq!((view.word(Slot(5)), run.ask()), (run, Ask::Run));
    assert_eq!(view.core(Slot(5)), Some(CoreIndex(1)));
    let evict = board.evict(Slot(5), Some(Slot(2)), 77);
    assert_eq!((evict.ask(), evict.generation()), (Ask::Evict, run.generation() + 1));
    assert_eq!((view.heir(Slot(5)), view.grace_ns(Slot(5))), (Some(Slot(2)), 77));
    assert_eq!(view.order(CoreIndex(0)), None);
    board.order(CoreIndex(0), Slot(0));
    board.order(CoreIndex(0), Slot(3));
    assert_eq!(view.order(CoreIndex(0)), Some(Order { generation: 2, heir: Slot(3) }));
    board.beat(99);
    assert_eq!(view.heartbeat_ns(), 99);
    // What does not exist is no harm.
    assert_eq!((view.word(Slot(8)), view.heir(Slot(8))), (Word::FIRST, None));
    assert!(!view.wake(Slot(u32::MAX)));
}

#[test]
fn a_kthread_sleeps_until_its_word_changes() {
    let (board, view) = board();
    let (view, first) = (std::sync::Arc::new(view), board.word(Slot(1)));
    let sleeper = std::thread::spawn({
        let view = view.clone();
        move || {
            while view.word(Slot(1)) == first {
                view.sleep(Slot(1), first, None);
            }
        }
    });
    board.grant(Slot(1), CoreIndex(0));
    // By a program, which can't write there; whether or not the kthread sleeps already.
    view.wake(Slot(1));
    sleeper.join().unwrap();
    // A word that has changed, and a time that is over: back at once.
    view.sleep(Slot(1), first, None);
    view.sleep(Slot(1), board.word(Slot(1)), Some(Duration::from_millis(1)));
}

#[test]
fn the_daemon_sees_what_a_program_writes() {
    let (page, view) = page();
    assert_eq!(*view.spec(), SPEC);
    assert!(view.look(2).unwrap().is_parked);
    page.set_tid(2, 1234);
    page.set_running(2, 9);
    page.set_run_queue(2, u32::MAX, 3);
    page.add_to_inbox(2);
    page.set_next_timer_ns(2, 50);
    page.set_stranded(2, 4);
    let look = view.look(2).unwrap();
    assert!(!look.is_parked);
    assert_eq!((look.generation, look.tid, look.stranded), (9, 1234, 4));
    assert_eq!((look.run, look.inbox), ((u32::MAX, 3), (0, 1)));
    assert_eq!((look.oldest_ready_ns, look.next_timer_ns), (None, Some(50)));
    page.set_parked(2, 10);
    let look = view.look(2).unwrap();
    assert_eq!((look.is_parked, look.generation), (true, 10));
    assert!(view.look(1).unwrap().is_parked);
}

#[test]
fn a_class_arrives_as_it_was_meant() {
    let batch = |looks| Class::Batch { looks };
    for class in [Class::LatencyCritical, batch(false), batch(true)] {
        let page = Page::create(&Spec { class, ..SPEC }).unwrap();
        let view = PageView::map(page.fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(view.spec().class, class);
    }
}

#[test]
fn what_others_do_to_a_queue_is_seen_beside_what_its_kthread_does() {
    let (page, view) = page();
    let page = std::sync::Arc::new(page);
    let line = PageLine::of(&page, 1);
    page.set_run_queue(1, u32::MAX, u32::MAX);
    line.count_put(1);
    line.count_put_by_other();
    line.count_put(1);
    assert_eq!(view.look(1).unwrap().run, (u32::MAX, 2));
    line.count_taken_by_other(2);
    line.count_taken(1);
    assert_eq!((view.look(1).unwrap().run, line.run_queue()), ((2, 2), (2, 2)));
    line.add_to_inbox();
    line.add_to_inbox();
    line.count_taken_in(1);
    assert_eq!((view.look(1).unwrap().inbox, page.inbox_tail(1)), ((1, 2), 2));
    assert_eq!((line.place().0.kthreads(), line.place().1), (3, 1));
}

#[test]
fn what_is_no_page_or_board_is_not_mapped() {
    let (page, _) = page();
    let (board, _) = board();
    let page_as_board = BoardView::map(page.fd().try_clone_to_owned().unwrap());
    assert!(matches!(page_as_board, Err(MapError::Magic("board"))));
    let board_as_page = PageView::map(board.fd().try_clone_to_owned().unwrap());
    assert!(matches!(board_as_page, Err(MapError::Magic("page"))));
    let unsealed = forged(b"CURTPAGE", 4096, SealFlags::SEAL);
    assert!(matches!(PageView::map(unsealed), Err(MapError::NotSealed)));
    let short = forged(b"CURTPAGE", 64, SIZE);
    assert!(matches!(PageView::map(short), Err(MapError::Header(_))));
    let header = |version: u32, line: u32, kthreads: u32, class: u32| {
        let mut bytes = b"CURTPAGE".to_vec();
        for word in [version, 128, line, kthreads, 1, 1, class] {
            bytes.extend(word.to_le_bytes());
        }
        PageView::map(forged(&bytes, 4096, SIZE)).err()
    };
    assert!(header(1, 128, 31, 0).is_none());
    assert!(matches!(header(2, 128, 31, 0), Some(MapError::Version { found: 2, needed: 1 })));
    for wrong in [header(1, 64, 31, 0), header(1, 128, 0, 0), header(1, 128, 32, 0)] {
        assert!(matches!(wrong, Some(MapError::Header(_))));
    }
    assert!(matches!(header(1, 128, 31, 3), Some(MapError::Header("its class"))));
}

/// Any bytes at all: an error, or looks that may be nonsense and do no harm.
#[test]
fn random_bytes_are_looked_at_without_harm() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32
    };
    for _ in 0..2_000 {
        let mut bytes = b"CURTPAGE".to_vec();
        for word in [1, 128, 128, 1 + next() % 31, next() % 4, next() % 4, next() % 3] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(128, 0);
        bytes.extend((0..992).flat_map(|_| next().to_le_bytes()));
        let view = PageView::map(forged(&bytes, 4096, SIZE)).unwrap();
        for index in 0..view.spec().kthreads {
            let _ = view.look(index);
        }
    }
}

#[test]
fn nobody_else_can_write() {
    let (page, _) = page();
    let flags = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    let shared = rustix::mm::MapFlags::SHARED;
    // SAFETY: a new mapping, which is refused.
    let mapped =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), 128, flags, shared, page.fd(), 0) };
    assert_eq!(mapped.unwrap_err(), rustix::io::Errno::PERM);
    assert!(ftruncate(page.fd(), 0).is_err());
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("curtail-shm-{name}-{}", std::process::id()))
}

fn accepted(listener: &Listener) -> Session {
    rustix::event::poll(
        &mut [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)],
        Some(&rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 }),
    )
    .unwrap();
    listener.accept().unwrap().expect("a program that connects")
}

fn request(session: &Session) -> Result<Request, SessionError> {
    loop {
        rustix::event::poll(
            &mut [rustix::event::PollFd::new(session, rustix::event::PollFlags::IN)],
            Some(&rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 }),
        )
        .unwrap();
        if let Some(request) = session.next_request()? {
            return Ok(request);
        }
    }
}

#[test]
fn a_program_and_the_daemon_meet_and_part() {
    let path = path("meet");
    let listener = Listener::bind(&path).unwrap();
    assert!(listener.accept().unwrap().is_none());
    let program = std::thread::spawn({
        let path = path.clone();
        move || {
            let page = Page::create(&SPEC).unwrap();
            let (session, welcome) = Session::connect(&path, "a program", page.fd()).unwrap();
            let view = BoardView::map(welcome.board).unwrap();
            session.pass_poller(page.fd()).unwrap();
            session.wait_for_end();
            (welcome.first_slot, welcome.slots, view.slots())
        }
    });
    let session = accepted(&listener);
    assert_eq!(session.peer().unwrap().0, rustix::process::getpid());
    let Request::Hello { name, page } = request(&session).unwrap() else { panic!("no hello") };
    assert_eq!((name.as_str(), *PageView::map(page).unwrap().spec()), ("a program", SPEC));
    let (board, _) = board();
    session.welcome(board.fd(), Slot(4), 3).unwrap();
    assert!(matches!(request(&session).unwrap(), Request::Poller(_)));
    drop(session);
    assert_eq!(program.join().unwrap(), (Slot(4), 3, 8));
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_question_is_answered() {
    let path = path("status");
    let listener = Listener::bind(&path).unwrap();
    let asker = std::thread::spawn({
        let path = path.clone();
        move || Session::status(&path).unwrap()
    });
    let session = accepted(&listener);
    assert!(matches!(request(&session).unwrap(), Request::Status));
    let text = "long ".repeat(10_000);
    session.answer(&text).unwrap();
    assert_eq!(asker.join().unwrap(), text);
}

#[test]
fn a_refusal_says_why() {
    let path = path("refuse");
    let listener = Listener::bind(&path).unwrap();
    let program = std::thread::spawn({
        let path = path.clone();
        move || {
            let page = Page::create(&SPEC).unwrap();
            Session::connect(&path, &"n".repeat(1_100), page.fd()).map(|_| ()).unwrap_err()
        }
    });
    let session = accepted(&listener);
    let Request::Hello { name, .. } = request(&session).unwrap() else { panic!("no hello") };
    assert_eq!(name.len(), 1_004);
    session.refuse("no cores are left").unwrap();
    let error = program.join().unwrap();
    assert_eq!(error.to_string(), "the daemon refuses: no cores are left");
    assert!(matches!(request(&session), Err(SessionError::Closed)));
}

#[test]
fn one_daemon_at_a_path_and_a_dead_one_is_replaced() {
    let path = path("twice");
    let first = Listener::bind(&path).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert!(error.to_string().contains("another daemon listens"), "{error}");
    // As a killed daemon leaves it.
    drop(first);
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let kind = rustix::net::SocketType::SEQPACKET;
    let dead = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
    rustix::net::bind(&dead, &address).unwrap();
    drop(dead);
    assert!(path.exists());
    drop(Listener::bind(&path).unwrap());
    assert!(!path.exists());
}

#[test]
fn nonsense_ends_a_session() {
    let path = path("nonsense");
    let listener = Listener::bind(&path).unwrap();
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let kind = rustix::net::SocketType::SEQPACKET;
    let mut valid = b"CRTL".to_vec();
    valid.extend([2_u32, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    valid.resize(1_024, 0);
    let with = |at: usize, byte: u8| {
        let mut changed = valid.clone();
        changed[at] = byte;
        changed
    };
    let cases = [
        (b"short".to_vec(), "its size"),
        (vec![0; 5_000], "its size"),
        (with(0, b'X'), "its magic"),
        (with(4, 9), "its version"),
        (with(8, 99), "a kind that does not exist"),
        (valid.clone(), "it lacks its descriptor"),
    ];
    for (bytes, problem) in cases {
        let client = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        rustix::net::connect(&client, &address).unwrap();
        rustix::net::send(&client, &bytes, rustix::net::SendFlags::empty()).unwrap();
        let session = accepted(&listener);
        match request(&session) {
            Err(SessionError::Message(found)) => assert_eq!(found, problem),
            other => panic!("{other:?} instead of: {problem}"),
        }
    }
}
