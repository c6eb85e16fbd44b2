//! A port that the daemon has for the program: it receives datagrams, puts them into the rings of the
//! kthreads that have cores, and sends what they answer (Shenango §4.3 and §6).
//!
//! Each session has rings of its own ([`Lanes`]): what a dead daemon left behind does not hinder
//! the next. A kthread takes from its own ring, and from others' where it has nothing else to do,
//! so that what lies in the ring of a parked kthread stays reachable; each ring has a lock for
//! that, which is only ever tried. It answers through its own ring.

use crate::thread::Thread;
use curtail_ring::Corrupt;
use curtail_ring::shm::PushError;
use curtail_shm::session::Session;
use curtail_shm::{Answer, Arrival, KthreadEnd, Rings};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A port that the daemon has for the program.
pub struct Port {
    /// What was asked for.
    asked: String,
    /// What is asked for next time, and what is said of it: once it has been opened, both with the number
    /// that the kernel chose.
    urls: Mutex<(String, String)>,
    closed: AtomicBool,
    unsent: AtomicU64,
    /// The threads that take packets in, one on each kthread.
    porters: Mutex<Vec<Thread>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics half-way under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port {
    /// Not open yet.
    pub(super) fn new(url: &str) -> Self {
        Self {
            asked: url.to_owned(),
            urls: Mutex::new((url.to_owned(), url.to_owned())),
            closed: AtomicBool::new(false),
            unsent: AtomicU64::new(0),
            porters: Mutex::default(),
        }
    }

    /// Opens it in a session: at the same number as before.
    pub(super) fn open(&self, session: &Session, kthreads: u32) -> Result<Lanes, String> {
        let told = |error: &dyn std::fmt::Display| format!("port {}: {error}", self.asked);
        let mut rings = Rings::create(kthreads).map_err(|error| told(&error))?;
        let url = locked(&self.urls).0.clone();
        let opened = session.open_port(&url, rings.fd().as_fd()).map_err(|error| told(&error))?;
        *locked(&self.urls) = urls(&opened, &self.asked);
        let ends = (0..kthreads).map(|index| rings.take(index).map(Lane::new));
        ends.collect::<Option<_>>().map(Lanes).ok_or_else(|| told(&"its rings"))
    }

    /// Where it is.
    pub fn url(&self) -> String {
        locked(&self.urls).1.clone()
    }

    /// Nothing more is taken in.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        locked(&self.porters).iter().for_each(Thread::unpark);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A thread that takes packets in: an unpark notifies it of the end.
    pub fn add_porter(&self, porter: Thread) {
        locked(&self.porters).push(porter);
    }

    /// Answers that could not be sent.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// An answer can't be sent.
    pub fn count_unsent(&self) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }
}

/// The places of `opened` with the options of `asked`, and the same with what the daemon says of each.
/// All URLs of one scheme share their options.
fn urls(opened: &str, asked: &str) -> (String, String) {
    let scheme = |url: &str| url.trim().split("://").next().unwrap_or_default().to_owned();
    let parts = |url: &str, more: &str| {
        let same = asked.split(',').filter(|other| scheme(other) == scheme(url));
        let mut options: Vec<&str> = Vec::new();
        for option in same.filter_map(|other| other.split_once('?')).flat_map(|it| it.1.split('&'))
        {
            if !options.contains(&option) {
                options.push(option);
            }
        }
        options.retain(|option| !more.split('&').any(|known| known == *option));
        let options = [more].into_iter().chain(options).filter(|it| !it.is_empty());
        options.collect::<Vec<_>>().join("&")
    };
    let (mut again, mut shown) = (Vec::new(), Vec::new());
    for url in opened.split(',') {
        let (place, said) = url.split_once('?').unwrap_or((url, ""));
        for (list, said) in [(&mut again, ""), (&mut shown, said)] {
            let options = parts(url, said);
            let mark = if options.is_empty() { "" } else { "?" };
            list.push(format!("{place}{mark}{options}"));
        }
    }
    (again.join(","), shown.join(","))
}

/// The rings of one session, by kthread.
pub(crate) struct Lanes(Box<[Lane]>);

struct Lane {
    arrivals: Mutex<curtail_shm::Receiver<Arrival>>,
    answers: Mutex<curtail_shm::Sender<Answer>>,
    waiting: curtail_shm::Gauge<Arrival>,
}

impl Lane {
    fn new(end: KthreadEnd) -> Self {
        let KthreadEnd { arrivals, answers, waiting } = end;
        Self { arrivals: Mutex::new(arrivals), answers: Mutex::new(answers), waiting }
    }
}

/// `None`: another kthread has it just now.
fn tried<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Lanes {
    /// Whether packets wait in a kthread's ring: a hint.
    #[inline]
    pub(super) fn wait(&self, index: usize) -> bool {
        !self.0[index].waiting.is_empty()
    }

    /// Another kthread in whose ring packets wait, looked for from the next one on.
    pub(super) fn elsewhere(&self, index: usize) -> Option<usize> {
        let count = self.0.len();
        (1..count).map(|step| (index + step) % count).find(|&other| self.wait(other))
    }

    /// Takes packets out of a kthread's ring, at most `most`.
    ///
    /// # Errors
    /// The daemon has written what can't be.
    pub(super) fn take(
        &self,
        index: usize,
        into: &mut Vec<Arrival>,
        most: usize,
    ) -> Result<(), Corrupt> {
        match tried(&self.0[index].arrivals) {
            Some(mut arrivals) => arrivals.pop_batch(into, most).map(drop),
            None => Ok(()),
        }
    }

    /// Sends an answer by the calling kthread's ring.
    ///
    /// # Errors
    /// [`PushError`]: nothing was sent.
    pub(super) fn send(&self, index: usize, answer: Answer) -> Result<(), PushError> {
        locked(&self.0[index].answers).push(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::urls;

    #[test]
    fn a_port_is_asked_for_again_where_it_was_and_with_its_options() {
        let both = |again: &str, shown: &str| (again.to_owned(), shown.to_owned());
        assert_eq!(urls("udp://[::1]:7", "udp://[::1]:0"), both("udp://[::1]:7", "udp://[::1]:7"));
        let one = "udp://1.1.1.1:7?max=9&rcvbuf=1m";
        assert_eq!(urls("udp://1.1.1.1:7", "udp://a:0?max=9&rcvbuf=1m"), both(one, one));
        // The daemon says the mode; which one there is next time is open.
        assert_eq!(
            urls("xdp://e/1.1.1.1:7?mode=copy,udp://1.1.1.1:8", "udp://a:0, xdp://e/a:0?max=9"),
            both(
                "xdp://e/1.1.1.1:7?max=9,udp://1.1.1.1:8",
                "xdp://e/1.1.1.1:7?mode=copy&max=9,udp://1.1.1.1:8"
            )
        );
        let asked = "xdp://e/1.1.1.1:7?mode=copy";
        assert_eq!(urls(asked, asked), both(asked, asked));
    }
}
