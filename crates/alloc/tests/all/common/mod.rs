//! A driver by hand: programs whose kthreads do what a test says.
#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod chaos;

use curtail_alloc::{
    Allocator, Class, KthreadId, KthreadLook, Machine, Nanos, Order, Program, ProgramId, Settings,
};

/// A kthread that runs, with nothing in its queues.
pub(crate) const RUNNING: KthreadLook = KthreadLook { parked: false, ..KthreadLook::IDLE };

pub(crate) fn us(at: u64) -> Nanos {
    Nanos(at * 1_000)
}

pub(crate) fn ms(at: u64) -> Nanos {
    Nanos(at * 1_000_000)
}

pub(crate) fn critical(kthreads: u32, guaranteed: u32, burstable: u32) -> Program {
    Program { class: Class::LatencyCritical, kthreads, guaranteed, burstable }
}

pub(crate) fn batch(kthreads: u32) -> Program {
    Program { class: Class::Batch { looks: true }, kthreads, guaranteed: 0, burstable: kthreads }
}

/// A program, and what its page says.
pub(crate) struct Added {
    pub(crate) id: ProgramId,
    pub(crate) kthreads: u32,
}

impl Added {
    pub(crate) fn kthread(&self, index: u32) -> KthreadId {
        KthreadId { program: self.id, index }
    }
}

pub(crate) struct Driver {
    pub(crate) allocator: Allocator,
    /// What each kthread's line says, by program and index.
    pages: Vec<Vec<KthreadLook>>,
}

impl Driver {
    pub(crate) fn new(machine: Machine, settings: Settings) -> Self {
        Self { allocator: Allocator::new(machine, settings).unwrap(), pages: Vec::new() }
    }

    pub(crate) fn add(&mut self, program: Program) -> Added {
        let id = self.allocator.add_program(Nanos(0), program).unwrap();
        self.pages.resize(self.pages.len().max(id.0 as usize + 1), Vec::new());
        self.pages[id.0 as usize] = vec![KthreadLook::IDLE; program.kthreads as usize];
        Added { id, kthreads: program.kthreads }
    }

    /// All orders of now. The kthreads that they are about have not seen them.
    pub(crate) fn orders(&mut self, now: Nanos) -> Vec<Order> {
        let orders: Vec<Order> = std::iter::from_fn(|| self.allocator.poll_order(now)).collect();
        for order in &orders {
            let mut unheard = |id: KthreadId| {
                self.pages[id.program.0 as usize][id.index as usize].acknowledged = false;
            };
            match *order {
                Order::Grant { kthread, by, .. } => {
                    unheard(kthread);
                    if let curtail_alloc::HandOver::Evict(victim) = by {
                        unheard(victim);
                    }
                }
                Order::Revoke { kthread } => unheard(kthread),
                _ => {}
            }
        }
        orders
    }

    /// The page changes in some lines, then the allocator looks at it.
    pub(crate) fn look(&mut self, now: Nanos, program: &Added, changes: &[(u32, KthreadLook)]) {
        let page = &mut self.pages[program.id.0 as usize];
        for &(index, look) in changes {
            page[index as usize] = look;
        }
        self.allocator.look(now, program.id, page);
    }

    /// The kthread gets a core for a message in its inbox, takes it, and runs.
    pub(crate) fn run(&mut self, now: Nanos, program: &Added, index: u32) {
        let inbox = curtail_alloc::Queue { head: 0, tail: 1 };
        let asks = KthreadLook { inbox, ..KthreadLook::IDLE };
        self.look(now, program, &[(index, asks)]);
        let orders = self.orders(now);
        let mine = |order: &&Order| matches!(order, Order::Grant { kthread, .. } if *kthread == program.kthread(index));
        assert_eq!(orders.iter().filter(mine).count(), 1, "{orders:?}");
        self.look(now, program, &[(index, RUNNING)]);
    }
}
