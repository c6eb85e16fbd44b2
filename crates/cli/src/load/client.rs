//! The client: what is due is sent, what has come is matched with what was sent.

use super::flight::{Flight, Sent};
use super::socket::{Came, Socket, Url};
use super::wire::{Answer, Outcome, Wire};
use crate::failure::Failure;
use curtail::clock::{self, Clock};
use curtail_workload::{Recorder, Sampler, Schedule};
use hdrhistogram::Histogram;
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Requests under way at most; what is older than so many later ones counts as lost.
const UNDER_WAY: usize = 1 << 18;
/// Requests sent in a row before answers are looked at again.
const BURST: usize = 64;
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Largest answer.
const BUFFER: usize = 65_536;

/// What is to be offered. Times are nanoseconds since the start.
pub(crate) struct Plan {
    pub(crate) schedule: Schedule,
    pub(crate) sampler: Sampler,
    /// By class, 0: as the request says (spin), or unknown.
    pub(crate) services: Vec<u32>,
    pub(crate) seed: u64,
    pub(crate) duration_ns: u64,
    pub(crate) warmup_ns: u64,
    pub(crate) timeout_ns: u64,
    pub(crate) spin: bool,
}

/// What came of the requests that were scheduled after the warm-up.
pub(crate) struct Tally {
    pub(crate) recorder: Recorder,
    /// How many were to arrive.
    pub(crate) offered: u64,
    /// How many were sent by the end of the schedule.
    pub(crate) sent_in_time: u64,
    /// How long after its time each was sent.
    pub(crate) lateness_ns: Histogram<u64>,
    /// Refused by the server, by class.
    pub(crate) overloaded: Vec<u64>,
    /// Never answered, by class.
    pub(crate) lost: Vec<u64>,
    pub(crate) failed: u64,
    /// Some service time was not known.
    pub(crate) unknown_service: bool,
    /// Length of the schedule after the warm-up.
    pub(crate) window_ns: u64,
    /// From the end of the warm-up to the last answer.
    pub(crate) last_answer_ns: u64,
}

impl Tally {
    fn new(plan: &Plan) -> Self {
        let classes = plan.services.len();
        let lateness = Histogram::new_with_bounds(1, 1_000_000_000_000, 3);
        Self {
            recorder: Recorder::new(classes),
            offered: 0,
            sent_in_time: 0,
            lateness_ns: lateness.expect("the bounds are constants"),
            overloaded: vec![0; classes],
            lost: vec![0; classes],
            failed: 0,
            unknown_service: false,
            window_ns: plan.duration_ns - plan.warmup_ns,
            last_answer_ns: 0,
        }
    }

    fn lost(&mut self, sent: Sent) {
        if sent.counts {
            self.lost[usize::from(sent.class)] += 1;
        }
    }

    fn answered(&mut self, sent: Sent, answer: &Answer, now_tsc: u64, warm_tsc: u64) {
        if !sent.counts {
            return;
        }
        let clock = Clock::get();
        match answer.outcome {
            Outcome::Overloaded => self.overloaded[usize::from(sent.class)] += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Done => {
                let sojourn_ns = clock.ns(now_tsc.saturating_sub(sent.scheduled_tsc));
                let service_ns = u64::from(sent.service_ns);
                self.recorder.record(usize::from(sent.class), sojourn_ns, service_ns, false);
                self.last_answer_ns = clock.ns(now_tsc.saturating_sub(warm_tsc));
            }
        }
    }
}

/// A client of one server.
pub(crate) struct Client {
    url: Url,
    sockets: Vec<Socket>,
    wire: Wire,
    /// Of the next request; never used again, so that a late answer meets nothing.
    next_id: u64,
    buffer: Vec<u8>,
    message: Vec<u8>,
}

/// The next request of a run.
#[derive(Clone, Copy)]
struct Next {
    at_ns: u64,
    class: u16,
    service_ns: u32,
}

impl Client {
    /// Connects, trying again for up to `wait_ns`: the server may be starting.
    pub(crate) fn open(
        url: &Url,
        connections: usize,
        wire: Wire,
        wait_ns: u64,
    ) -> Result<Self, Failure> {
        let until = Instant::now() + Duration::from_nanos(wait_ns);
        let open = || loop {
            match Socket::open(url) {
                Err(_) if Instant::now() < until => std::thread::sleep(RETRY),
                outcome => return outcome,
            }
        };
        let sockets = (0..connections).map(|_| open()).collect::<Result<_, _>>()?;
        let (buffer, message) = (vec![0; BUFFER], Vec::new());
        Ok(Self { url: url.clone(), sockets, wire, next_id: 1, buffer, message })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    fn failure(url: &Url, error: impl std::fmt::Display) -> Failure {
        Failure::failed(format!("{url}: {error}"))
    }

    /// One request of a class, without service of its own, and its answer; `None`: none came.
    pub(crate) fn ask(&mut self, class: u16, within: Duration) -> Result<Option<Answer>, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        let random = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.wire.request((id, class, 0), random, &mut self.message);
        let until = Instant::now() + within;
        let Self { url, sockets, wire, buffer, message, .. } = self;
        let socket = &mut sockets[0];
        socket.send(id, message).map_err(|error| Self::failure(url, error))?;
        loop {
            let mut found = None;
            let mut take = |came: Came<'_>| {
                let answer = wire.outcome(came).filter(|answer| answer.id == id);
                found = found.or(answer);
            };
            socket.receive(buffer, &mut take).map_err(|error| Self::failure(url, error))?;
            let left = until.saturating_duration_since(Instant::now());
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            wait(&mut [socket.poll_fd()], left)?;
        }
    }

    /// Offers what is planned, and waits for the answers.
    pub(crate) fn drive(&mut self, plan: Plan) -> Result<Tally, Failure> {
        // Sleeps end when they are to end, not up to 50 µs later. Refused: they end later, and
        // the lateness is measured as any other.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let tally = Tally::new(&plan);
        let start_tsc = clock::now() + Clock::get().cycles(1_000_000);
        let warm_tsc = start_tsc + Clock::get().cycles(plan.warmup_ns);
        let random = plan.seed | 1;
        let mut drive = Drive {
            client: self,
            plan,
            tally,
            flight: Flight::new(UNDER_WAY),
            start_tsc,
            warm_tsc,
            random,
            socket: 0,
        };
        drive.run()?;
        Ok(drive.tally)
    }
}

/// One run.
struct Drive<'a> {
    client: &'a mut Client,
    plan: Plan,
    tally: Tally,
    flight: Flight,
    start_tsc: u64,
    warm_tsc: u64,
    random: u64,
    /// Where the next request goes.
    socket: usize,
}

impl Drive<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut next = self.draw();
        // When the answers that are still to come are given up: the timeout runs from the last
        // request, and again from every answer, so that a server that works off its queue is not
        // cut short.
        let mut give_up_ns = None;
        loop {
            let blocked = self.send_due(&mut next)?;
            let came = self.receive()?;
            let now_ns = self.now_ns();
            if next.at_ns < self.plan.duration_ns {
                if now_ns > self.plan.duration_ns + self.plan.timeout_ns {
                    self.skip(&mut next);
                } else {
                    self.pause(next.at_ns, blocked)?;
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
            self.tally.lost(sent);
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        Clock::get().ns(clock::now().saturating_sub(self.start_tsc))
    }

    fn draw(&mut self) -> Next {
        let (class, service_ns) = self.plan.sampler.draw();
        let service_ns = u32::try_from(service_ns).unwrap_or(u32::MAX);
        Next { at_ns: self.plan.schedule.next_ns(), class: class as u16, service_ns }
    }

    /// Sends what is due, up to a burst; `true`: the sockets are full.
    fn send_due(&mut self, next: &mut Next) -> Result<bool, Failure> {
        for _ in 0..BURST {
            let now_ns = self.now_ns();
            if next.at_ns >= self.plan.duration_ns || next.at_ns > now_ns {
                return Ok(false);
            }
            if !self.send(*next, now_ns)? {
                return Ok(true);
            }
            *next = self.draw();
        }
        Ok(false)
    }

    fn send(&mut self, next: Next, now_ns: u64) -> Result<bool, Failure> {
        let Client { url, sockets, wire, next_id, message, .. } = &mut *self.client;
        let id = *next_id;
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(id | 1);
        let random = self.random ^ (self.random >> 32);
        wire.request((id, next.class, next.service_ns), random, message);
        let sockets_len = sockets.len();
        // One on which it does not wait for others' answers, if there is one.
        let mut in_turn = (self.socket..sockets_len).chain(0..self.socket);
        let free = in_turn.find(|&at| !sockets[at].is_busy());
        self.socket = free.unwrap_or(self.socket);
        let socket = &mut sockets[self.socket];
        if !socket.send(id, message).map_err(|error| Client::failure(url, error))? {
            // Another flow may have room; this one is tried again in its turn.
            self.socket = (self.socket + 1) % sockets_len;
            return Ok(false);
        }
        self.socket = (self.socket + 1) % sockets_len;
        *next_id += 1;
        let counts = next.at_ns >= self.plan.warmup_ns;
        let service_ns = match (&*wire, self.plan.services[usize::from(next.class)]) {
            (Wire::Spin, 0) => next.service_ns,
            (_, known) => known,
        };
        // A spin request without service is an empty one, and that is known.
        self.tally.unknown_service |= service_ns == 0 && matches!(wire, Wire::Kv(_));
        if counts {
            self.tally.offered += 1;
            self.tally.sent_in_time += u64::from(now_ns < self.plan.duration_ns);
            self.tally.lateness_ns.saturating_record((now_ns - next.at_ns).max(1));
        }
        let scheduled_tsc = self.start_tsc + Clock::get().cycles(next.at_ns);
        let sent = Sent { scheduled_tsc, class: next.class, counts, service_ns };
        if let Some(lost) = self.flight.sent(id, sent) {
            self.tally.lost(lost);
        }
        Ok(true)
    }

    /// The rest of the schedule is not going to be sent any more.
    fn skip(&mut self, next: &mut Next) {
        while next.at_ns < self.plan.duration_ns {
            if next.at_ns >= self.plan.warmup_ns {
                self.tally.offered += 1;
                self.tally.lost[usize::from(next.class)] += 1;
            }
            *next = self.draw();
        }
    }

    /// Takes what has come; how much.
    fn receive(&mut self) -> Result<u64, Failure> {
        let Client { url, sockets, wire, buffer, .. } = &mut *self.client;
        let (flight, tally, warm_tsc) = (&mut self.flight, &mut self.tally, self.warm_tsc);
        let mut count = 0;
        let mut take = |came: Came<'_>| {
            let Some(answer) = wire.outcome(came) else { return };
            if let Some(sent) = flight.answered(answer.id) {
                tally.answered(sent, &answer, clock::now(), warm_tsc);
                count += 1;
            }
        };
        for socket in sockets {
            socket.receive(buffer, &mut take).map_err(|error| Client::failure(url, error))?;
        }
        Ok(count)
    }

    /// Waits for the time or for an answer. `blocked`: or, for a short while, for room.
    fn pause(&mut self, until_ns: u64, blocked: bool) -> Result<(), Failure> {
        /// Between two attempts to send into full sockets.
        const RETRY_NS: u64 = 20_000;
        let now_ns = self.now_ns();
        let left_ns = if blocked { RETRY_NS } else { until_ns.saturating_sub(now_ns) };
        // The start lies a little ahead; until then the time reads 0.
        if left_ns == 0 || self.plan.spin {
            std::hint::spin_loop();
            return Ok(());
        }
        let mut fds: Vec<PollFd<'_>> = self.client.sockets.iter().map(Socket::poll_fd).collect();
        wait(&mut fds, Duration::from_nanos(left_ns))
    }
}

fn wait(fds: &mut [PollFd<'_>], at_most: Duration) -> Result<(), Failure> {
    let timeout = Timespec {
        tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::failed(format!("cannot wait for sockets: {error}"))),
    }
}
