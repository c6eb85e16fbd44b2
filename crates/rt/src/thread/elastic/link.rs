//! A session with a daemon: where its board is, and which slots of it are ours.

use super::orders::{Orders, are_followed};
use super::port::{Lanes, Port};
use curtail_shm::session::{Session, SessionError};
use curtail_shm::{BoardView, Page, Slot};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A session with a daemon, and its board.
pub(in crate::thread) struct Link {
    session: Session,
    pub(super) view: BoardView,
    first: Slot,
    slots: u32,
    /// Of the port, where there is one.
    pub(super) lanes: Option<Arc<Lanes>>,
    /// Of batch work that follows them.
    orders: Option<Orders>,
}

impl Link {
    pub(super) fn connect(
        path: &Path,
        name: &str,
        (page, is_batch): (&Page, bool),
        (pollers, poll_pages): (BorrowedFd<'_>, Option<BorrowedFd<'_>>),
        port: Option<&Port>,
    ) -> Result<Self, String> {
        let told = |error: SessionError| error.to_string();
        let (session, welcome) = Session::connect(path, name, page.fd()).map_err(told)?;
        let view = BoardView::map(welcome.board).map_err(|error| error.to_string())?;
        let (first, slots) = (welcome.first_slot, welcome.slots);
        let end = first.0.checked_add(slots);
        let few = if is_batch { 0 } else { page.kthreads() };
        if slots != few || end.is_none_or(|end| end > view.slots()) {
            return Err(format!("it gives {slots} slots from {} on", first.0));
        }
        session.pass_poller(pollers).map_err(told)?;
        let lanes = port.map(|port| port.open(&session, page.kthreads())).transpose()?;
        if let Some(pages) = poll_pages.filter(|_| session.is_of_this_user()) {
            session.pass_poll_pages(pages).map_err(told)?;
        }
        let orders = (is_batch && are_followed()).then(|| Orders::of(&view));
        Ok(Self { session, view, first, slots, lanes: lanes.map(Arc::new), orders })
    }

    /// Whether kthreads are granted cores: those of batch work are not, the kernel has them run on
    /// what is left.
    pub(super) fn grants_cores(&self) -> bool {
        self.slots > 0
    }

    /// Of batch work: where its kthreads are to run, if they follow the orders for these cores.
    pub(super) fn batch_cpus(&self) -> Option<Vec<usize>> {
        self.orders.as_ref().map(|orders| orders.cpus().collect())
    }

    /// Of batch work: wakes the heir of the core that the caller is on, if it was ordered for one.
    #[inline]
    pub(super) fn follow_orders(&self) {
        if let Some(orders) = &self.orders {
            orders.follow(&self.view);
        }
    }

    /// A kthread's slot.
    pub(super) fn slot(&self, index: u32) -> Slot {
        Slot(self.first.0 + index)
    }

    /// Wakes a kthread that sleeps on its word.
    pub(super) fn wake(&self, index: u32) {
        self.view.wake(self.slot(index));
    }

    /// Waits until the daemon has ended, or [`Link::leave`] is called.
    pub(super) fn wait_for_end(&self) {
        self.session.wait_for_end();
    }

    /// Waits until the daemon has ended, for so long at most; true: it has ended, or was left.
    pub(super) fn ends_within(&self, most: Duration) -> bool {
        self.session.ends_within(most)
    }

    pub(super) fn leave(&self) {
        self.session.leave();
    }
}
