//! A recorded run, played again: the same calls at the same policy must give the same answers.
//!
//! A policy is a function of its calls, so that a difference is a bug (a policy that looks at
//! something else), or the record was made by other code. Only the first difference means anything;
//! the replay ends there.

use curtail_policy::record::{Call, Damaged, Decided, Header, MAGIC, Reader};
use curtail_policy::{AnyPolicy, Job, JobId, Nanos, Policy, WorkerId};
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
    policy: Option<(AnyPolicy, Header)>,
    /// The one before, which still has what the new one will inherit.
    before: Option<AnyPolicy>,
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
        if let Call::Begin(header) = call {
            return self.begin(header).map(|()| false);
        }
        let Some((policy, header)) = &mut self.policy else {
            return Err(self.damaged("it comes before any policy".to_owned()));
        };
        if !is_within(&call, header) {
            return Err(self.damaged(format!("it names what there is not: {call:?}")));
        }
        self.replay.decisions += u64::from(matches!(call, Call::Decide { .. }));
        let before = &mut self.before;
        // A policy panics at calls that fit nothing before: then the record is not of it.
        let answer = catch_unwind(AssertUnwindSafe(|| answer(policy, before, &call)));
        match answer {
            Ok(None) => Ok(false),
            Ok(Some((recorded, replayed))) => {
                let (call, at) = (self.replay.calls, self.replay.span);
                self.replay.difference = Some(Difference { call, at, recorded, replayed });
                Ok(true)
            }
            Err(_) => Err(self.damaged(format!("the policy refuses it: {call:?}"))),
        }
    }

    fn begin(&mut self, header: Header) -> Result<(), ReplayError> {
        const MOST_JOBS: usize = 1 << 24;
        header.spec.validate(header.workers).map_err(|error| self.damaged(error.to_string()))?;
        if header.jobs > MOST_JOBS {
            return Err(self.damaged(format!("{} jobs at once", header.jobs)));
        }
        self.replay.policies.push(header.spec.name.clone());
        let next = header.spec.build(header.workers, header.jobs, header.seed);
        self.before = self.policy.replace((next, header)).map(|(policy, _)| policy);
        Ok(())
    }
}

fn time(call: &Call) -> Option<Nanos> {
    match *call {
        Call::Begin(_) | Call::Serviced { .. } | Call::SetQuantum { .. } => None,
        Call::Arrive { now, .. }
        | Call::Inherit { now, .. }
        | Call::Adopt { now, .. }
        | Call::Yielded { now, .. }
        | Call::Completed { now, .. }
        | Call::Blocked { now, .. }
        | Call::Woken { now, .. }
        | Call::Resumed { now, .. }
        | Call::Decide { now, .. }
        | Call::Renewed { now, .. }
        | Call::WorkerUp { now, .. }
        | Call::WorkerDown { now, .. } => Some(now),
    }
}

/// Whether its workers and jobs exist.
fn is_within(call: &Call, header: &Header) -> bool {
    let worker = |on: WorkerId| on == WorkerId::DISPATCHER || on.index() < header.workers;
    let id = |id: JobId| (id.0 as usize) < header.jobs;
    let job = |job: &Job| id(job.id) && job.pinned.is_none_or(worker);
    match call {
        Call::Begin(_) | Call::SetQuantum { .. } | Call::Decide { .. } => true,
        Call::Arrive { job: it, refused, .. } => *refused || job(it),
        Call::Inherit { job: it, .. } => job(it),
        Call::Adopt { on, job: it, .. }
        | Call::Yielded { on, job: it, .. }
        | Call::Woken { on, job: it, .. } => worker(*on) && job(it),
        Call::Completed { on, job, .. }
        | Call::Blocked { on, job, .. }
        | Call::Resumed { on, job, .. } => worker(*on) && id(*job),
        Call::Serviced { on, .. } => *on != WorkerId::DISPATCHER && worker(*on),
        Call::Renewed { on, .. } | Call::WorkerUp { on, .. } | Call::WorkerDown { on, .. } => {
            *on != WorkerId::DISPATCHER && worker(*on)
        }
    }
}

/// Asks the policy; where its answer is not the recorded one: both.
fn answer(
    policy: &mut AnyPolicy,
    before: &mut Option<AnyPolicy>,
    call: &Call,
) -> Option<(String, String)> {
    match *call {
        Call::Begin(_) => {}
        Call::Arrive { now, job, refused } => {
            let now_refused = policy.arrive(now, job).is_err();
            let word = |refused| {
                format!("job {} {}", job.id.0, if refused { "refused" } else { "taken in" })
            };
            return (now_refused != refused).then(|| (word(refused), word(now_refused)));
        }
        Call::Inherit { now, job } => {
            let evicted = before.as_mut().and_then(Policy::evict);
            if evicted != Some(job) {
                return Some((format!("gives up {job:?}"), format!("gives up {evicted:?}")));
            }
            policy.inherit(now, job);
        }
        Call::Adopt { now, on, job } => policy.adopt(now, on, job),
        Call::Yielded { now, on, job } => policy.yielded(now, on, job),
        Call::Completed { now, on, job, attained } => policy.completed(now, on, job, attained),
        Call::Blocked { now, on, job } => policy.blocked(now, on, job),
        Call::Woken { now, on, job } => policy.woken(now, on, job),
        Call::Resumed { now, on, job } => policy.resumed(now, on, job),
        Call::Serviced { on, quanta } => policy.serviced(on, quanta),
        Call::SetQuantum { quantum } => policy.set_quantum(quantum),
        Call::Decide { now, decision } => {
            let decided = Decided::from(policy.decide(now));
            return (decided != decision).then(|| (shown(decision), shown(decided)));
        }
        Call::Renewed { now, on } => policy.renewed(now, on),
        Call::WorkerUp { now, on } => policy.worker_up(now, on),
        Call::WorkerDown { now, on } => policy.worker_down(now, on),
    }
    None
}

fn shown(decision: Decided) -> String {
    match decision {
        Decided::Idle => "nothing".to_owned(),
        Decided::Preempt { on } => format!("pre-empt {on}"),
        Decided::Run { job, on, quantum: Some(quantum) } => {
            format!("run job {} on {on} for {} ns", job.0, quantum.0)
        }
        Decided::Run { job, on, quantum: None } => {
            format!("run job {} on {on} to completion", job.0)
        }
    }
}
