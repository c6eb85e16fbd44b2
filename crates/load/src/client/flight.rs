//! The requests that are under way, by id: a ring of the latest.
//!
//! Ids are consecutive, so the slot of a request is its id modulo the size. A slot that is needed
//! again while its request is unanswered gives that request up as lost: it is older than as many
//! requests as the ring has slots.

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// When it was due, in nanoseconds since the start.
    pub(crate) due_ns: u64,
    /// Its class.
    pub(crate) class: u16,
    /// It was due after the warm-up.
    pub(crate) counts: bool,
    /// Un-instrumented service time; 0: unknown.
    pub(crate) service_ns: u32,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Flight {
    slots: Box<[Option<(u64, Sent)>]>,
    under_way: usize,
}

impl Flight {
    /// For this many requests at once, rounded up to a power of two.
    pub(crate) fn new(size: usize) -> Self {
        Self { slots: vec![None; size.next_power_of_two()].into(), under_way: 0 }
    }

    fn slot(&mut self, id: u64) -> &mut Option<(u64, Sent)> {
        let mask = self.slots.len() - 1;
        &mut self.slots[id as usize & mask]
    }

    /// A request was sent; gives back the one that is given up for it.
    pub(crate) fn sent(&mut self, id: u64, sent: Sent) -> Option<Sent> {
        let lost = self.slot(id).replace((id, sent));
        self.under_way += usize::from(lost.is_none());
        lost.map(|(_, sent)| sent)
    }

    /// A request was answered; `None`: it is not under way (any more).
    pub(crate) fn answered(&mut self, id: u64) -> Option<Sent> {
        let slot = self.slot(id);
        let (_, sent) = slot.take_if(|(other, _)| *other == id)?;
        self.under_way -= 1;
        Some(sent)
    }

    /// How many are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Gives all of them up.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Sent> + '_ {
        self.under_way = 0;
        self.slots.iter_mut().filter_map(|slot| slot.take().map(|(_, sent)| sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(class: u16) -> Sent {
        Sent { due_ns: 0, class, counts: true, service_ns: 0 }
    }

    #[test]
    fn an_answer_finds_its_request_once() {
        let mut flight = Flight::new(4);
        assert_eq!(flight.sent(7, sent(1)), None);
        assert_eq!(flight.answered(3), None, "the same slot, another request");
        assert_eq!(flight.answered(7), Some(sent(1)));
        assert_eq!(flight.answered(7), None, "a duplicate");
        assert_eq!(flight.under_way(), 0);
    }

    #[test]
    fn an_overtaken_request_is_lost() {
        let mut flight = Flight::new(3);
        for id in 0..4 {
            assert_eq!(flight.sent(id, sent(id as u16)), None);
        }
        assert_eq!(flight.sent(5, sent(5)), Some(sent(1)));
        assert_eq!(flight.answered(1), None);
        assert_eq!(flight.under_way(), 4);
        assert_eq!(flight.drain().count(), 4);
        assert_eq!(flight.under_way(), 0);
    }
}
