//! Where requests enter: the dispatcher's side of `Transport::poll`.

use crate::ask::{Asker, Entry, EntryParts, Id, Incoming, Origin, TurnedAway, tag};
use crate::dispatcher::Deadlines;
use crate::jobs::{ByteQuota, JobRecord};
use crate::message::{JobBuffers, Message};
use crate::server::Rules;
use crate::stats::ClassStats;
use curtail_net::{Intake, Peer, Reply};
use curtail_policy::{ClassId, Nanos};
use curtail_rt::clock::Clock;
use curtail_rt::context::NEVER;
use curtail_rt::timeline::{self, EventKind};
use curtail_sched::{Arrival, Scheduler};
use std::sync::Arc;

/// How many requests are taken from a transport at a time: enough to amortise a look, few enough
/// that workers' news and quanta are never late for it.
pub(crate) const BATCH: usize = 64;
/// As many when some have no room: refusing costs time that what is in the system needs.
pub(crate) const BATCH_TO_REFUSE: usize = 8;

/// How many requests to take from a transport in one turn.
pub(crate) fn batch(sched: &Scheduler<JobRecord>) -> usize {
    if sched.is_short() { BATCH_TO_REFUSE } else { BATCH }
}

/// The dispatcher's parts that an arrival touches.
pub(crate) struct DispatcherIngress<'a> {
    pub asker: &'a mut Asker,
    pub clock: Clock,
    pub now: Nanos,
    pub now_tsc: u64,
    pub sched: &'a mut Scheduler<JobRecord>,
    pub byte_quota: &'a mut ByteQuota,
    pub buffers: &'a JobBuffers,
    pub classes: &'a mut [ClassStats],
    pub malformed: &'a mut u64,
    pub replies: &'a [Arc<dyn Reply>],
    pub turned_away: &'a mut TurnedAway,
    pub transport: u16,
    /// The policy wants to know how long requests will take.
    pub hints: bool,
    pub batch: usize,
    pub taken: usize,
    pub rules: &'a Rules,
    pub deadlines: &'a mut Deadlines,
    /// Peers have gone.
    pub departed: &'a mut bool,
}

impl Intake for DispatcherIngress<'_> {
    fn room(&self) -> usize {
        if self.asker.is_laden() { 0 } else { self.batch - self.taken.min(self.batch) }
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        self.taken += 1;
        let origin = Origin { peer: from, transport: self.transport, arrived_tsc };
        self.come(Incoming::Lent(payload), origin, self.hints);
    }

    fn request_in(&mut self, buffer: &mut Vec<u8>, from: Peer, arrived_tsc: u64) {
        self.taken += 1;
        let origin = Origin { peer: from, transport: self.transport, arrived_tsc };
        self.come(Incoming::Given(buffer), origin, self.hints);
    }

    fn malformed(&mut self, count: u64) {
        *self.malformed += count;
    }

    fn departed(&mut self) {
        *self.departed = true;
    }
}

impl Entry for DispatcherIngress<'_> {
    fn parts(&mut self) -> EntryParts<'_> {
        EntryParts {
            asker: self.asker,
            classes: self.classes,
            malformed: self.malformed,
            replies: self.replies,
            turned_away: self.turned_away,
            now_tsc: self.now_tsc,
        }
    }

    fn admit(&mut self, id: Id, class: ClassId) -> bool {
        let Self { asker, byte_quota, buffers, sched, rules, deadlines, .. } = self;
        let inquiry = asker.get(id);
        let (payload, Origin { peer, transport, arrived_tsc }) =
            (&mut inquiry.payload, inquiry.origin);
        // Where there is no slot the scheduler says so: its policy may count those that came.
        if rules.refuses(class) || !byte_quota.has_room_for(class, payload.len()) {
            return false;
        }
        let at = self.clock.nanos(arrived_tsc);
        let arrival = Arrival { class, at, hint: inquiry.hint };
        let deadline_tsc = rules.deadline(class, inquiry.deadline, arrived_tsc);
        let admitted = sched.handle_arrival(self.now, arrival, |id| {
            timeline::note(EventKind::Arrived, (arrived_tsc, 0), id.0, class.0);
            let (tag, bytes) = (tag(payload.bytes()), payload.len() as u32);
            let (mut message, inline) = Message::new(id, class, payload, arrived_tsc);
            message.reply = u8::from(peer != Peer::None);
            if message.answers() || !inline {
                // SAFETY: the slot was vacant, so no worker has its job.
                let buffer = unsafe { buffers.get(id) };
                (buffer.peer, buffer.transport) = (peer, transport);
                if !inline {
                    byte_quota.fill(&mut buffer.payload, payload.large());
                }
            }
            byte_quota.came(class, bytes);
            if deadline_tsc != NEVER {
                deadlines.add(id, arrived_tsc, deadline_tsc);
            }
            JobRecord { message, peer, transport, tag, bytes, deadline_tsc }
        });
        admitted.is_ok()
    }
}
