//! How an engine is to work, and what it shares.

use crate::app::ErasedApp;
use crate::control::Control;
use crate::message::{JobBuffers, Message};
use crate::server::Rules;
use curtail_fiber::safepoint::Mode;
use curtail_net::{Peer, Reply};
use curtail_policy::{Nanos, WorkerId};
use curtail_rt::cancel::Cause;
use curtail_rt::clock::{self, Clock};
use curtail_rt::context::{Facts, RequestId};
use curtail_rt::thread::Quanta;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How an engine is to work; changes while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub mode: Mode,
    /// The dispatcher watches the quanta.
    pub watched: bool,
    /// Pre-empted jobs go back to the dispatcher.
    pub central: bool,
    /// The dispatcher reads `serviced`.
    pub report_serviced: bool,
    /// Of threads that handlers have spawned, which time themselves; `None`: to completion.
    pub thread_quantum: Option<Nanos>,
}

/// What an engine shares with the rest of its server.
#[derive(Clone)]
pub(crate) struct ServerShared {
    pub app: Arc<dyn ErasedApp>,
    pub buffers: Arc<JobBuffers>,
    pub replies: Arc<[Arc<dyn Reply>]>,
    pub clock: Clock,
    /// How threads that handlers spawn are pre-empted.
    pub thread_quanta: Quanta,
    /// Under a core allocator, how a request without a quantum looks at what that asks, and how often
    /// (cycles).
    pub beat: Option<(Mode, u64)>,
    pub jobs: usize,
    /// How many workers this dispatcher has, and the numbers in the server of the first and of the first
    /// spare one.
    pub workers: u16,
    pub first_worker: u16,
    pub first_spare: u16,
    pub rules: Arc<Rules>,
    pub control: Arc<Control>,
    /// The dispatcher's number.
    pub index: u64,
    /// By job: when it is cancelled (TSC), if it has a deadline; else [`NEVER`](curtail_rt::context::NEVER).
    /// Written by the dispatcher while the job is its own.
    pub deadlines: Arc<[AtomicU64]>,
}

impl ServerShared {
    /// From the next quantum on, as the configuration says.
    pub(crate) fn set_thread_quanta(&self, config: &Config) {
        // Half of all that can be counted is never over.
        let beat = self.beat.map_or(u64::MAX / 2, |(_, cycles)| cycles);
        let quantum = config.thread_quantum.map(|quantum| self.clock.cycles(quantum.0));
        self.thread_quanta.set(quantum, beat);
    }

    /// Whether the client has gone: a request that has not begun is not run then.
    pub(super) fn is_orphaned(&self, message: &Message) -> bool {
        if !message.answers() {
            return false;
        }
        // SAFETY: the caller has the job's message; the dispatcher has written these before.
        let (peer, transport) = unsafe { self.buffers.origin(message.job) };
        self.replies[usize::from(transport)].is_gone(peer)
    }

    /// Whether a request that is in progress is cancelled, as far as that can be seen without being told.
    pub(crate) fn cause(&self, message: &Message) -> Option<Cause> {
        if self.is_orphaned(message) {
            return Some(Cause::Departed);
        }
        (clock::now() >= self.deadline(message)).then_some(Cause::Deadline)
    }

    fn deadline(&self, message: &Message) -> u64 {
        self.deadlines[message.job.0 as usize].load(Ordering::Relaxed)
    }

    /// What is known of a request.
    pub(crate) fn facts(&self, message: &Message) -> Facts {
        let (peer, reply) = match message.answers() {
            false => (Peer::None, None),
            true => {
                // SAFETY: the caller has the job; its handler refers to the payload alone.
                let (peer, transport) = unsafe { self.buffers.origin(message.job) };
                (peer, Some(self.replies[usize::from(transport)].clone()))
            }
        };
        let place = self.index << 32 | u64::from(message.job.0);
        Facts {
            id: RequestId { place, arrived_tsc: message.arrived_tsc },
            class: message.class,
            peer,
            deadline_tsc: self.deadline(message),
            reply,
            route: self.control.clone(),
        }
    }

    /// One of this dispatcher's workers, as the application and people know it.
    pub(crate) fn in_server(&self, id: WorkerId) -> WorkerId {
        match id.0.checked_sub(self.workers) {
            _ if id == WorkerId::DISPATCHER => id,
            None => WorkerId(id.0 + self.first_worker),
            Some(spare) => WorkerId(spare + self.first_spare),
        }
    }
}
