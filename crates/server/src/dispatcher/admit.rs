//! How the dispatcher lets a request in: it becomes a job of the scheduler's.

use super::Dispatcher;
use crate::ask::{Entry, EntryState, Id, Origin, tag};
use crate::jobs::JobRecord;
use crate::message::Message;
use curtail_net::Peer;
use curtail_policy::ClassId;
use curtail_rt::context::NEVER;
use curtail_rt::timeline::{self, EventKind};
use curtail_sched::Arrival;

impl Entry for Dispatcher {
    #[inline]
    fn state(&mut self) -> &mut EntryState {
        &mut self.base.entry
    }

    fn admit(&mut self, id: Id, class: ClassId) -> bool {
        let Self { base, config, sched, deadlines, .. } = self;
        let (shared, byte_quota) = (&config.shared, &mut config.byte_quota);
        let inquiry = base.entry.asker.get(id);
        let (payload, Origin { peer, transport, arrived_tsc }) =
            (&mut inquiry.payload, inquiry.origin);
        // Where there is no slot the scheduler says so: its policy may count those that came.
        if shared.rules.refuses(class) || !byte_quota.has_room_for(class, payload.len()) {
            return false;
        }
        let (now, at) = (shared.clock.nanos(base.entry.now), shared.clock.nanos(arrived_tsc));
        let arrival = Arrival { class, at, hint: inquiry.hint };
        let deadline_tsc = shared.rules.deadline(class, inquiry.deadline, arrived_tsc);
        let admitted = sched.handle_arrival(now, arrival, |id| {
            timeline::note(EventKind::Arrived, (arrived_tsc, 0), id.0, class.0);
            let (tag, bytes) = (tag(payload.bytes()), payload.len() as u32);
            let (mut message, inline) = Message::new(id, class, payload, arrived_tsc);
            message.reply = u8::from(peer != Peer::None);
            if message.answers() || !inline {
                // SAFETY: the slot was vacant, so no worker has its job.
                let buffer = unsafe { shared.buffers.get(id) };
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
