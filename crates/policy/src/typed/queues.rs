//! The lists of a [`super::Typed`] policy, and the places that jobs go to from them.

use super::share::Shares;
use crate::classes::Classes;
use crate::places::Places;
use crate::table::{List, Table, Where};
use crate::tournament::Tournament;
use crate::{Job, JobId, WorkerId};

/// The lists of one class; see the head of [`super`].
struct Queue {
    /// Workers that its jobs may run on.
    group: usize,
    /// May run on any of them.
    anywhere: List,
    /// Started on that worker, and goes on nowhere else.
    pinned: Vec<List>,
    /// When the oldest pinned job of each worker with a free place was queued.
    ripe: Tournament<u64>,
    /// In all of these.
    waiting: usize,
}

/// The lists of a typed policy, and the places that jobs go to from them.
pub(crate) struct Queues {
    pub(crate) classes: Classes,
    pub(crate) table: Table,
    queues: Vec<Queue>,
    /// Started on the dispatcher, and goes on nowhere else.
    parked: List,
    places: Places,
    /// How many jobs wait that may run anywhere in each group.
    loose: Vec<usize>,
    /// How many wait for that worker alone.
    pinned: Vec<u32>,
}

impl Queues {
    pub(crate) fn new(classes: Classes, shares: &Shares, k: u16, jobs: usize) -> Self {
        let places = Places::grouped(&shares.sizes, k);
        let workers = places.workers();
        let groups = shares.sizes.len();
        let queue = |class: usize| Queue {
            // What is unknown goes with the last class.
            group: shares.group_of.get(class).copied().unwrap_or(groups - 1),
            anywhere: List::EMPTY,
            pinned: vec![List::EMPTY; workers],
            ripe: Tournament::new(workers, Table::NEVER, Table::NEVER),
            waiting: 0,
        };
        Self {
            queues: (0..classes.len()).map(queue).collect(),
            classes,
            table: Table::new(jobs),
            parked: List::EMPTY,
            places,
            loose: vec![0; groups],
            pinned: vec![0; workers],
        }
    }

    /// The class of a job that is not waiting.
    pub(crate) fn class_of(&self, id: JobId) -> usize {
        self.classes.index(self.table.job(id).class)
    }

    /// When the oldest job of the class that can be placed now was queued, as a number;
    /// [`Table::NEVER`] where there is none.
    #[inline]
    pub(crate) fn seq(&self, class: usize) -> u64 {
        let queue = &self.queues[class];
        if queue.waiting == 0 {
            return Table::NEVER;
        }
        let ripe = queue.ripe.best().1;
        match self.places.shortest(queue.group) {
            Some(_) => ripe.min(self.table.head_seq(&queue.anywhere)),
            None => ripe,
        }
    }

    /// Whether a job of the class can be placed now.
    pub(crate) fn has(&self, class: usize) -> bool {
        self.seq(class) != Table::NEVER
    }

    /// The known classes in turn: from the one after `turn` to that one.
    pub(crate) fn after(&self, turn: usize) -> impl Iterator<Item = usize> + use<> {
        (turn + 1..self.classes.known()).chain(0..turn + 1)
    }

    /// Whether a job of the class waits, whether it can be placed now or not.
    pub(crate) fn waits(&self, class: usize) -> bool {
        self.queues[class].waiting > 0
    }

    /// The oldest job of the class that can be placed now.
    pub(crate) fn head(&self, class: usize) -> Option<Job> {
        let queue = &self.queues[class];
        let (worker, ripe) = queue.ripe.best();
        let list = match self.seq(class) {
            Table::NEVER => return None,
            seq if seq == ripe => &queue.pinned[worker],
            _ => &queue.anywhere,
        };
        self.table.head(list)
    }

    /// The job, which was in `from`, waits from now on.
    pub(crate) fn push(&mut self, job: Job, from: Where, first: bool) {
        let class = self.classes.index(job.class);
        let queue = &mut self.queues[class];
        let list = match job.pinned {
            None => &mut queue.anywhere,
            Some(WorkerId::DISPATCHER) => &mut self.parked,
            Some(worker) => &mut queue.pinned[worker.index()],
        };
        if first {
            self.table.push_front(list, job, from);
        } else {
            self.table.push(list, job, from);
        }
        match job.pinned {
            Some(WorkerId::DISPATCHER) => return,
            None => self.loose[queue.group] += 1,
            Some(worker) => self.pinned[worker.index()] += 1,
        }
        queue.waiting += 1;
        job.pinned.into_iter().for_each(|worker| self.refresh(worker));
    }

    /// After a job was taken out of its list.
    fn popped(&mut self, job: &Job) {
        let queue = &mut self.queues[self.classes.index(job.class)];
        match job.pinned {
            Some(WorkerId::DISPATCHER) => return,
            None => self.loose[queue.group] -= 1,
            Some(worker) => self.pinned[worker.index()] -= 1,
        }
        queue.waiting -= 1;
        job.pinned.into_iter().for_each(|worker| self.refresh(worker));
    }

    /// Takes out the oldest job of the class that can be placed now, and says where it goes.
    pub(crate) fn take(&mut self, class: usize) -> Option<(Job, WorkerId)> {
        let queue = &mut self.queues[class];
        let (worker, ripe) = queue.ripe.best();
        let shortest = self.places.shortest(queue.group);
        let (list, on) = match shortest {
            Some(on) if self.table.head_seq(&queue.anywhere) < ripe => (&mut queue.anywhere, on),
            _ if ripe == Table::NEVER => return None,
            _ => (&mut queue.pinned[worker], WorkerId(worker as u16)),
        };
        let job = self.table.pop(list, Where::On(on))?;
        self.popped(&job);
        Some((job, on))
    }

    /// Takes out the oldest job that only the dispatcher may go on with.
    pub(crate) fn take_parked(&mut self) -> Option<Job> {
        let job = self.table.pop(&mut self.parked, Where::On(WorkerId::DISPATCHER))?;
        self.popped(&job);
        Some(job)
    }

    /// Takes out the oldest of all that wait.
    pub(crate) fn take_oldest(&mut self) -> Option<Job> {
        let Self { queues, table, parked, pinned, .. } = self;
        let pinned = |queue: &Queue| {
            let waiting = pinned.iter().enumerate().filter(|(_, jobs)| **jobs > 0);
            waiting.map(|(worker, _)| table.head_seq(&queue.pinned[worker])).min()
        };
        let oldest = |queue: &Queue| {
            table.head_seq(&queue.anywhere).min(pinned(queue).unwrap_or(Table::NEVER))
        };
        let (seq, class) =
            queues.iter().enumerate().map(|(class, queue)| (oldest(queue), class)).min()?;
        let list = if table.head_seq(parked) <= seq {
            parked
        } else if table.head_seq(&queues[class].anywhere) == seq {
            &mut queues[class].anywhere
        } else {
            queues[class].pinned.iter_mut().find(|list| table.head_seq(list) == seq)?
        };
        let job = table.pop(list, Where::Out)?;
        self.popped(&job);
        Some(job)
    }

    pub(crate) fn occupy(&mut self, on: WorkerId) {
        self.places.occupy(on);
        self.refresh(on);
    }

    pub(crate) fn vacate(&mut self, on: WorkerId) {
        self.places.vacate(on);
        self.refresh(on);
    }

    /// The worker takes jobs from now on, or none.
    pub(crate) fn set_up(&mut self, on: WorkerId, up: bool) {
        self.places.set_up(on.index(), up);
        self.refresh(on);
    }

    /// Whether another job could use the place of what runs on that worker.
    pub(crate) fn is_wanted(&self, worker: usize) -> bool {
        let loose = self.loose[self.places.group_of(worker)];
        loose > 0 || self.pinned[worker] > 0 || self.places.held(worker) > 1
    }

    /// After a change of what `worker` holds or what waits for it alone.
    fn refresh(&mut self, worker: WorkerId) {
        if worker == WorkerId::DISPATCHER {
            return;
        }
        let worker = worker.index();
        if !self.places.set_wanted(worker, self.pinned[worker] > 0) {
            return;
        }
        let has_place = self.places.has_place(worker);
        for queue in &mut self.queues {
            let head = self.table.head_seq(&queue.pinned[worker]);
            queue.ripe.set(worker, if has_place { head } else { Table::NEVER });
        }
    }
}
