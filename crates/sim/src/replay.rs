//! A recorded run, played again: the same calls at the same scheduler must give the same answers.
//!
//! A scheduler is a function of its calls, so that a difference is a bug (a policy that looks at
//! something else), or the record was made by other code. Only the first difference means anything;
//! the replay ends there.

use curtail_policy::{JobId, Nanos, WorkerId};
use curtail_sched::record::{Call, Damaged, MAGIC, Reader};
use curtail_sched::{Action, Command, Expiry, Scheduler, Setup};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Calls that were played.
    pub calls: u64,
    /// Decisions among them.
    pub decisions: u64,
    /// The policies, in the order in which they were in force.
    pub policies: Vec<String>,
    /// From the first call to the last.
    pub span: Nanos,
    /// The first answer that was not the recorded one.
    pub difference: Option<Difference>,
    /// The record ends in the middle of a call: what wrote it was stopped.
    pub cut_off: bool,
}

/// An answer that was not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the call, from 1.
    pub call: u64,
    /// When it was, since the first call.
    pub at: Nanos,
    /// What was recorded.
    pub recorded: String,
    /// What the policy answered now.
    pub replayed: String,
}

/// Why there was nothing to replay, or no further.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("this is no record of a run")]
    NoRecord,
    /// A call that is none.
    #[error("call {call}: {why}")]
    Damaged {
        /// Its number, from 1.
        call: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// Plays a record.
///
/// # Errors
/// It cannot be read, or is no record of a run.
pub fn replay(mut from: impl Read) -> Result<Replay, ReplayError> {
    let mut magic = [0; MAGIC.len()];
    let begun = from.read_exact(&mut magic);
    if begun.is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof) || &magic != MAGIC {
        return Err(ReplayError::NoRecord);
    }
    let mut player = Player::default();
    let mut reader = Reader::default();
    let mut buffer = Vec::new();
    let mut ended = false;
    while !ended {
        ended = from.by_ref().take(1 << 20).read_to_end(&mut buffer)? == 0;
        let mut used = 0;
        loop {
            match reader.read(&buffer[used..]) {
                Ok((call, length)) => {
                    used += length;
                    if player.play(call)? {
                        return Ok(player.replay);
                    }
                }
                Err(Damaged::CutOff) => break,
                Err(Damaged::Nonsense(why)) => return Err(player.damaged(why)),
            }
        }
        buffer.drain(..used);
    }
    player.replay.cut_off = !buffer.is_empty();
    Ok(player.replay)
}

#[derive(Default)]
struct Player {
    replay: Replay,
    sched: Option<Scheduler<()>>,
    first: Option<Nanos>,
}

impl Player {
    fn damaged(&self, why: String) -> ReplayError {
        ReplayError::Damaged { call: self.replay.calls, why }
    }

    /// One call; true: its answer differs.
    fn play(&mut self, call: Call) -> Result<bool, ReplayError> {
        self.replay.calls += 1;
        if let Some(now) = time(&call) {
            let first = *self.first.get_or_insert(now);
            self.replay.span = now.since(first);
        }
        if let Call::Begin(setup) | Call::Switch { setup, .. } = &call {
            self.check(setup)?;
            self.replay.policies.push(setup.spec.name.clone());
        }
        if let Call::Begin(setup) = call {
            self.sched = Some(Scheduler::new(setup, None));
            return Ok(false);
        }
        let Some(sched) = &mut self.sched else {
            return Err(self.damaged("it comes before any policy".to_owned()));
        };
        if !is_within(&call, sched.setup()) {
            return Err(self.damaged(format!("it names what there is not: {call:?}")));
        }
        self.replay.decisions += u64::from(matches!(call, Call::Poll { .. }));
        // A scheduler panics at calls that fit nothing before: then the record is not of it.
        let answer = catch_unwind(AssertUnwindSafe(|| answer(sched, &call)));
        match answer {
            Ok(None) => Ok(false),
            Ok(Some((recorded, replayed))) => {
                let (call, at) = (self.replay.calls, self.replay.span);
                self.replay.difference = Some(Difference { call, at, recorded, replayed });
                Ok(true)
            }
            Err(_) => Err(self.damaged(format!("the scheduler refuses it: {call:?}"))),
        }
    }

    fn check(&self, setup: &Setup) -> Result<(), ReplayError> {
        const MOST_JOBS: usize = 1 << 24;
        setup.spec.validate(setup.workers).map_err(|error| self.damaged(error.to_string()))?;
        if setup.jobs > MOST_JOBS {
            return Err(self.damaged(format!("{} jobs at once", setup.jobs)));
        }
        Ok(())
    }
}

fn time(call: &Call) -> Option<Nanos> {
    match *call {
        Call::Begin(_) | Call::Serviced { .. } | Call::Quantum { .. } => None,
        Call::Switch { now, .. }
        | Call::Arrive { now, .. }
        | Call::Event { now, .. }
        | Call::Cancel { now, .. }
        | Call::WorkerUp { now, .. }
        | Call::WorkerDown { now, .. }
        | Call::QuantumOver { now, .. }
        | Call::Poll { now, .. } => Some(now),
    }
}

/// Whether its workers and jobs exist.
fn is_within(call: &Call, setup: &Setup) -> bool {
    let all = setup.workers + curtail_sched::MOST_SPARES;
    let worker = |on: WorkerId| on != WorkerId::DISPATCHER && on.index() < all;
    let anywhere = |on: WorkerId| on == WorkerId::DISPATCHER || worker(on);
    match call {
        Call::Begin(_) | Call::Quantum { .. } | Call::Arrive { .. } | Call::Poll { .. } => true,
        Call::Switch { setup: next, .. } => {
            (next.workers, next.jobs, next.seed) == (setup.workers, setup.jobs, setup.seed)
        }
        Call::Event { on, event, .. } => anywhere(*on) && (event.job.0 as usize) < setup.jobs,
        Call::Cancel { job, .. } => (job.0 as usize) < setup.jobs,
        Call::QuantumOver { on, .. } => anywhere(*on),
        Call::Serviced { on, .. } | Call::WorkerUp { on, .. } | Call::WorkerDown { on, .. } => {
            worker(*on)
        }
    }
}

/// Tells the scheduler; where its answer is not the recorded one: both.
fn answer(sched: &mut Scheduler<()>, call: &Call) -> Option<(String, String)> {
    match *call {
        Call::Begin(_) => {}
        Call::Switch { now, ref setup } => {
            let (spec, pins) = (Box::new(setup.spec.clone()), setup.pins);
            sched.handle_command(now, Command::Policy { spec, pins });
        }
        // That it was has no time, and none matters.
        Call::Quantum { quantum } => sched.handle_command(Nanos::ZERO, Command::Quantum(quantum)),
        Call::Arrive { now, arrival, admitted } => {
            let now_admitted = sched.handle_arrival(now, arrival, |_| ()).ok();
            let word = |job: Option<JobId>| match job {
                Some(job) => format!("a request taken in as job {}", job.0),
                None => "a request refused".to_owned(),
            };
            return (now_admitted != admitted).then(|| (word(admitted), word(now_admitted)));
        }
        Call::Event { now, on, event } => sched.handle_event(now, on, event),
        Call::Serviced { on, quanta } => sched.handle_serviced(on, quanta),
        Call::WorkerUp { now, on } => sched.worker_up(now, on),
        Call::Cancel { now, job, begun } => sched.handle_cancel(now, job, begun),
        Call::WorkerDown { now, on } => sched.worker_down(now, on),
        Call::QuantumOver { now, on, yields } => {
            let now_yields = sched.quantum_over(now, on) == Expiry::Yield;
            let word =
                |yields| format!("the job on {on} {}", if yields { "yields" } else { "goes on" });
            return (now_yields != yields).then(|| (word(yields), word(now_yields)));
        }
        Call::Poll { now, action } => {
            let next = sched.poll_action(now);
            return (next != action).then(|| (shown(action), shown(next)));
        }
    }
    None
}

fn shown(action: Option<Action>) -> String {
    match action {
        None => "nothing".to_owned(),
        Some(Action::Preempt { on }) => format!("pre-empt {on}"),
        Some(Action::Drop { job }) => format!("drop job {}", job.0),
        Some(Action::Run { job, on, quantum: Some(quantum) }) => {
            format!("run job {} on {on} for {} ns", job.0, quantum.0)
        }
        Some(Action::Run { job, on, quantum: None }) => {
            format!("run job {} on {on} to completion", job.0)
        }
    }
}
