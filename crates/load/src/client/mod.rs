//! A client of a server: what is due is sent, what has come is matched with what was sent. One thread
//! does both, and sleeps when neither is at hand, unless told to spin.

mod alone;
mod flight;
mod http;
mod idle;
mod ordered;
mod outcome;
mod own;
mod plain;
mod socket;
mod stream;
mod template;
#[cfg(test)]
mod tests;
mod wire;

use crate::{Error, Lateness, Pace, Tally};
use curtail::clock::{self, Clock};
use curtail_workload::{Request, Requests};
use flight::{Flight, Sent};
pub use outcome::{judge, result, told};
pub use own::{Body, IdAt, Own};
pub use plain::{Plain, Statuses, WebRequest};
use rustix::event::PollFd;
use socket::{Came, Socket, wait};
pub use socket::{Scheme, Url};
use std::num::NonZeroU64;
use std::ops::Range;
use std::time::{Duration, Instant};
pub use wire::{Answer, App, Kv, Outcome, Wire};

/// Requests under way at most; what is older than so many later ones counts as lost.
const UNDER_WAY: usize = 1 << 18;
/// Requests sent in a row before answers are looked at again.
const BURST: usize = 64;
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Largest answer.
const BUFFER: usize = 65_536;

/// What is to be offered. Times are nanoseconds since the start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What arrives, and when.
    pub requests: Requests,
    /// By class, 0: as the request says (spin), or unknown.
    pub services: Vec<u32>,
    /// Of the keys.
    pub seed: u64,
    /// How long requests arrive.
    pub duration_ns: u64,
    /// What arrives before this does not count.
    pub warmup_ns: u64,
    /// How long answers are waited for.
    pub timeout_ns: u64,
    /// Poll all the time rather than sleep.
    pub spin: bool,
}

/// What came of the requests that were due after the warm-up.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counted from the end of the warm-up to the end of the schedule.
    pub tally: Tally,
    /// Of the requests that were sent.
    pub lateness: Lateness,
    /// How many were sent by the end of the schedule.
    pub sent_in_time: u64,
    /// How many found every flow taken, where a flow has one request in progress at a time.
    pub waited: u64,
    /// Those that were due in each quarter of the window.
    quarters: [Quarter; 4],
    /// Some service time was not known.
    pub unknown_service: bool,
    /// When the requests were due that count.
    pub window: Range<u64>,
    /// What the answers said, of a server whose application is not one of ours.
    pub statuses: Statuses,
}

/// Requests that were due in a quarter of the window, and were served.
#[derive(Clone, Copy, Debug, Default)]
struct Quarter {
    count: u64,
    sum_ns: u64,
}

impl Quarter {
    fn add(&mut self, sojourn_ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(sojourn_ns);
    }

    fn mean_ns(self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }
}

impl Seen {
    /// Where the queue grew from quarter to quarter of the window, and the server was at it long after:
    /// for how long, as a share of the window, and how many times longer the requests of the last quarter
    /// took than those of the first.
    fn growth(&self) -> Option<(f64, f64)> {
        /// One stall of the machine is no growth.
        const LEAST_OVER_NS: u64 = 100_000_000;
        const LEAST_OVER: f64 = 0.03;
        const LEAST_GROWTH: f64 = 3.0;
        /// Fewer requests may differ by chance.
        const LEAST_COUNT: u64 = 20;
        let Range { start, end } = self.window;
        let over_ns = self.tally.last_ns.saturating_sub(end);
        let over = over_ns as f64 / (end - start).max(1) as f64;
        let means = self.quarters.map(Quarter::mean_ns);
        let growth = means[3] / means[0].max(1.0);
        let grows = self.quarters.iter().all(|quarter| quarter.count >= LEAST_COUNT)
            && means.is_sorted()
            && growth > LEAST_GROWTH;
        (over_ns >= LEAST_OVER_NS && over > LEAST_OVER && grows).then_some((over, growth))
    }

    fn new(plan: &Plan) -> Self {
        Self {
            tally: Tally::new(plan.services.len()),
            lateness: Lateness::new(u64::MAX),
            sent_in_time: 0,
            waited: 0,
            quarters: [Quarter::default(); 4],
            unknown_service: false,
            window: plan.warmup_ns..plan.duration_ns,
            statuses: Statuses::default(),
        }
    }

    fn lost(&mut self, sent: Sent) {
        if sent.counts {
            self.tally.lost[usize::from(sent.class)] += 1;
        }
    }

    fn answered(&mut self, sent: Sent, outcome: Outcome, now_ns: u64) {
        if !sent.counts {
            return;
        }
        let (tally, class) = (&mut self.tally, usize::from(sent.class));
        match outcome {
            Outcome::Overloaded => tally.refused[class] += 1,
            Outcome::Failed => tally.failed += 1,
            Outcome::Done => {
                let sojourn_ns = now_ns.saturating_sub(sent.due_ns);
                let quarter_ns = (self.window.end - self.window.start).div_ceil(4).max(1);
                let quarter = sent.due_ns.saturating_sub(self.window.start) / quarter_ns;
                self.quarters[quarter.min(3) as usize].add(sojourn_ns);
                tally.recorder.record(class, sojourn_ns, u64::from(sent.service_ns), false);
                tally.last_ns = now_ns;
            }
        }
    }
}

/// A client of one server.
pub struct Client {
    url: Url,
    sockets: Vec<Socket>,
    wire: Wire,
    /// Of the next request; never used again, so that a late answer meets nothing.
    next_id: u64,
    buffer: Vec<u8>,
    message: Vec<u8>,
}

impl Client {
    /// Connects, trying again for up to `wait_ns`: the server may be starting.
    ///
    /// # Errors
    /// There is no connection by then.
    pub fn open(url: &Url, connections: usize, wire: Wire, wait_ns: u64) -> Result<Self, Error> {
        let until = Instant::now() + Duration::from_nanos(wait_ns);
        let open = || loop {
            match Socket::open(url, &wire) {
                Err(_) if Instant::now() < until => std::thread::sleep(RETRY),
                outcome => return outcome,
            }
        };
        let sockets = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
        let (buffer, message) = (vec![0; BUFFER], Vec::new());
        Ok(Self { url: url.clone(), sockets, wire, next_id: 1, buffer, message })
    }

    /// The server.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    fn failure(url: &Url, error: impl std::fmt::Display) -> Error {
        Error::new(format!("{url}: {error}"))
    }

    /// Offers what is planned, and waits for the answers.
    ///
    /// # Errors
    /// A connection fails.
    pub fn drive(&mut self, plan: Plan) -> Result<Seen, Error> {
        // Sleeps end when they are to end, not up to 50 µs later. Refused: they end later, and
        // the lateness is measured as any other.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut pace = Pace::new(plan.requests.clone(), plan.duration_ns);
        let most = self.wire.most_under_way().min(UNDER_WAY);
        let mut drive = Drive {
            client: self,
            seen: Seen::new(&plan),
            flight: Flight::new(most),
            start_tsc: clock::now() + Clock::get().cycles(1_000_000),
            random: plan.seed | 1,
            socket: 0,
            waiting: 0,
            plan,
        };
        drive.run(&mut pace)?;
        Ok(drive.seen)
    }
}

/// One run.
struct Drive<'a> {
    client: &'a mut Client,
    plan: Plan,
    seen: Seen,
    flight: Flight,
    start_tsc: u64,
    random: u64,
    /// Where the next request goes.
    socket: usize,
    /// The latest request without room at first; 0: none.
    waiting: u64,
}

/// Nanoseconds since the start, which lies a little ahead at first: until then it is 0.
fn since(start_tsc: u64) -> u64 {
    Clock::get().ns(clock::now().saturating_sub(start_tsc))
}

impl Drive<'_> {
    fn run(&mut self, pace: &mut Pace<Requests>) -> Result<(), Error> {
        let start_tsc = self.start_tsc;
        // When the answers that are still to come are given up: the timeout runs from the last
        // request, and again from every answer, so that a server that works off its queue is not
        // cut short.
        let mut give_up_ns = None;
        loop {
            let blocked = pace.send_due(
                || since(start_tsc),
                BURST,
                |request, due_ns, now_ns| self.send(request, due_ns, now_ns),
            )?;
            let came = self.receive()?;
            let now_ns = since(start_tsc);
            if let Some(due_ns) = pace.due_ns() {
                if now_ns > self.plan.duration_ns + self.plan.timeout_ns {
                    pace.skip_rest(|request, due_ns| self.skip(request, due_ns));
                } else {
                    self.pause(due_ns, blocked)?;
                }
                continue;
            }
            if came > 0 {
                give_up_ns = None;
            }
            let until = *give_up_ns.get_or_insert(now_ns + self.plan.timeout_ns);
            if self.flight.under_way() == 0 || now_ns >= until {
                break;
            }
            self.pause(until, false)?;
        }
        for sent in self.flight.drain() {
            self.seen.lost(sent);
        }
        Ok(())
    }

    /// False: the sockets are full.
    fn send(&mut self, request: &Request, due_ns: u64, now_ns: u64) -> Result<bool, Error> {
        let Client { url, sockets, wire, next_id, message, .. } = &mut *self.client;
        let (id, class) = (*next_id, request.class);
        let asked_ns = u32::try_from(request.service_ns).unwrap_or(u32::MAX);
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(id | 1);
        let random = self.random ^ (self.random >> 32);
        wire.request((id, class, asked_ns), random, message);
        let sockets_len = sockets.len();
        // One on which it does not wait for others' answers, if there is one, or for a connection.
        let in_turn = (self.socket..sockets_len).chain(0..self.socket);
        let free = in_turn.clone().find(|&at| !sockets[at].is_busy());
        let there = || in_turn.clone().find(|&at| !sockets[at].comes_about());
        self.socket = free.or_else(there).unwrap_or(self.socket);
        let socket = &mut sockets[self.socket];
        let sent = socket.send(id, message).map_err(|error| Client::failure(url, error))?;
        // Where that one is full, another may have room; it is tried again in its turn.
        self.socket = (self.socket + 1) % sockets_len;
        let counts = due_ns >= self.plan.warmup_ns;
        if !sent {
            // It is tried again until there is room, and counts once.
            let finds_none = counts && matches!(socket, Socket::Alone(_)) && self.waiting != id;
            self.seen.waited += u64::from(finds_none);
            self.waiting = id;
            return Ok(false);
        }
        *next_id += 1;
        let service_ns = match (&*wire, self.plan.services[usize::from(class)]) {
            (Wire::Spin, 0) => asked_ns,
            (_, known) => known,
        };
        let seen = &mut self.seen;
        // A spin request without service is an empty one, and that is known.
        seen.unknown_service |= service_ns == 0 && !matches!(wire, Wire::Spin);
        if counts {
            seen.tally.offered += 1;
            seen.sent_in_time += u64::from(now_ns < self.plan.duration_ns);
            seen.lateness.record(due_ns, now_ns);
        }
        if let Some(lost) = self.flight.sent(id, Sent { due_ns, class, counts, service_ns }) {
            seen.lost(lost);
        }
        Ok(true)
    }

    /// It is not going to be sent any more.
    fn skip(&mut self, request: &Request, due_ns: u64) {
        if due_ns >= self.plan.warmup_ns {
            self.seen.tally.offered += 1;
            self.seen.tally.lost[usize::from(request.class)] += 1;
        }
    }

    /// Takes what has come; how much.
    fn receive(&mut self) -> Result<u64, Error> {
        let Client { url, sockets, wire, buffer, .. } = &mut *self.client;
        let (flight, seen, start_tsc) = (&mut self.flight, &mut self.seen, self.start_tsc);
        let mut count = 0;
        let mut take = |came: Came<'_>| {
            let Some(answer) = wire.outcome(came) else { return };
            if let Some(sent) = flight.answered(answer.id) {
                if let Some(status) = wire.status(&came).filter(|_| sent.counts) {
                    seen.statuses.count(status);
                }
                seen.answered(sent, answer.outcome, since(start_tsc));
                count += 1;
            }
        };
        for socket in sockets {
            socket.receive(buffer, &mut take).map_err(|error| Client::failure(url, error))?;
        }
        Ok(count)
    }

    /// Waits for the time or for an answer. `blocked`: or, for a short while, for room.
    fn pause(&mut self, until_ns: u64, blocked: bool) -> Result<(), Error> {
        /// Between two attempts to send into full sockets.
        const RETRY_NS: u64 = 20_000;
        /// Between two attempts where an answer frees a flow, and wakes us.
        const LOOK_NS: u64 = 1_000_000;
        let now_ns = since(self.start_tsc);
        let left_ns = match (blocked, &self.client.sockets[0]) {
            (true, Socket::Alone(_)) => LOOK_NS,
            (true, _) => RETRY_NS,
            (false, _) => until_ns.saturating_sub(now_ns),
        };
        if left_ns == 0 || self.plan.spin {
            std::hint::spin_loop();
            return Ok(());
        }
        // All are asked: each is to wake us.
        if !self.client.sockets.iter_mut().fold(true, |all, one| all & one.before_wait()) {
            return Ok(());
        }
        let mut fds: Vec<PollFd<'_>> =
            self.client.sockets.iter().filter_map(Socket::poll_fd).collect();
        wait(&mut fds, Duration::from_nanos(left_ns))
    }
}
