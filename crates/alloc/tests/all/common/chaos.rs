//! A driver that says anything, from a seed, and checks after each call what must always hold.

use curtail_alloc::{
    Allocator, Class, CoreId, HandOver, Holding, KthreadId, KthreadLook, Nanos, Order, Program,
    ProgramId, Queue,
};
use std::collections::{BTreeMap, BTreeSet};

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        (self.next() >> 32) % most
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn word(&mut self) -> u32 {
        match self.below(3) {
            0 => self.below(3) as u32,
            1 => u32::MAX - self.below(3) as u32,
            _ => self.next() as u32,
        }
    }

    fn time(&mut self, now: Nanos) -> Option<Nanos> {
        match self.below(5) {
            0 | 1 => None,
            2 => Some(Nanos(now.0.saturating_add(self.below(20_000)))),
            3 => Some(Nanos(now.0.saturating_sub(self.below(20_000)))),
            _ => Some(Nanos(self.next())),
        }
    }

    /// Anything.
    pub(crate) fn look(&mut self, now: Nanos) -> KthreadLook {
        let mut queue = || Queue { head: self.word(), tail: self.word() };
        let (run, inbox) = (queue(), queue());
        KthreadLook {
            parked: self.one_in(2),
            acknowledged: !self.one_in(4),
            run,
            inbox,
            oldest_ready: self.time(now),
            next_timer: self.time(now),
            stranded: if self.one_in(3) { self.word() } else { 0 },
        }
    }

    /// A program that may or may not be taken in.
    pub(crate) fn program(&mut self) -> Program {
        let class = match self.below(6) {
            0 => Class::Batch { looks: true },
            1 => Class::Batch { looks: false },
            _ => Class::LatencyCritical,
        };
        let mut number = |most| self.below(most) as u32;
        Program { class, kthreads: number(9), guaranteed: number(4), burstable: number(6) }
    }
}

/// What programs there are, and what the allocator must keep to.
pub(crate) struct Chaos {
    pub(crate) allocator: Allocator,
    pub(crate) random: Random,
    pub(crate) now: Nanos,
    pub(crate) programs: BTreeMap<ProgramId, Program>,
    pub(crate) orders: Vec<Order>,
    /// The driver oversleeps now and then, by up to 2 ms.
    pub(crate) jumps: bool,
    cores: u32,
    looks: Vec<KthreadLook>,
}

impl Chaos {
    pub(crate) fn new(allocator: Allocator, cores: u32, seed: u64) -> Self {
        Self {
            allocator,
            random: Random::new(seed),
            now: Nanos(0),
            programs: BTreeMap::new(),
            orders: Vec::new(),
            jumps: true,
            cores,
            looks: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, program: Program) -> Option<ProgramId> {
        let id = self.allocator.add_program(self.now, program).ok()?;
        assert!(self.programs.insert(id, program).is_none(), "{id:?} is there twice");
        Some(id)
    }

    /// One call, of any kind, at one program but `spared`, or none.
    pub(crate) fn step(&mut self, spared: Option<ProgramId>) {
        let late = self.jumps && self.random.one_in(50);
        self.now = self.now.plus(Nanos(self.random.below(if late { 2_000_000 } else { 4_000 })));
        let others = self.programs.keys().copied().filter(|id| Some(*id) != spared);
        let others: Vec<ProgramId> = others.collect();
        let some = self.random.below(others.len().max(1) as u64) as usize;
        // One that is gone, or was never there, now and then.
        let stranger = ProgramId(self.random.below(8) as u32 + 1);
        let id = others.get(some).copied().unwrap_or(stranger);
        let kthread = KthreadId { program: id, index: self.random.below(10) as u32 };
        match self.random.below(64) {
            0 if others.len() < 6 => {
                let program = self.random.program();
                let _: Option<ProgramId> = self.add(program);
            }
            1 if Some(id) != spared => {
                self.allocator.remove_program(self.now, id);
                self.programs.remove(&id);
            }
            2 if Some(id) != spared => self.allocator.demote(self.now, id),
            3..8 if Some(id) != spared => self.allocator.packets_waiting(self.now, id),
            8..10 if Some(id) != spared => self.allocator.parked(self.now, kthread),
            10..12 if Some(id) != spared => self.allocator.refused(self.now, kthread),
            12..16 => {}
            _ if Some(id) != spared => self.lie(id),
            _ => {}
        }
        self.drain();
    }

    fn lie(&mut self, id: ProgramId) {
        let kthreads = self.random.below(10);
        self.looks.clear();
        for _ in 0..kthreads {
            let look = self.random.look(self.now);
            self.looks.push(look);
        }
        self.allocator.look(self.now, id, &self.looks);
    }

    /// Takes all orders, and checks.
    pub(crate) fn drain(&mut self) {
        self.orders.clear();
        while let Some(order) = self.allocator.poll_order(self.now) {
            self.orders.push(order);
            assert!(self.orders.len() < 1_000, "orders without end");
        }
        self.check();
        let wakeup = self.allocator.next_wakeup(self.now);
        assert!(wakeup.is_none_or(|at| at >= self.now));
        let critical = |it: &Program| it.class == Class::LatencyCritical;
        assert!(wakeup.is_some() || !self.programs.values().any(critical));
    }

    fn check(&self) {
        let mut seen = BTreeSet::new();
        let mut counts = BTreeMap::<ProgramId, u32>::new();
        let mut place = BTreeMap::new();
        for core in (0..self.cores).map(CoreId) {
            let holding = self.allocator.holding(core);
            let (all, counted) = match holding {
                Holding::Free => continue,
                Holding::Held(holder) => (vec![holder], Some(holder)),
                Holding::Leaving(victim, heir) => {
                    ([Some(victim), heir].into_iter().flatten().collect(), heir)
                }
            };
            for kthread in all {
                assert!(seen.insert(kthread), "{kthread} has two cores");
                let program = self.programs.get(&kthread.program).expect("a program that is there");
                assert!(kthread.index < program.kthreads);
                assert_eq!(program.class, Class::LatencyCritical);
                place.insert(kthread, holding);
            }
            if let Some(kthread) = counted {
                *counts.entry(kthread.program).or_default() += 1;
            }
        }
        for (id, program) in &self.programs {
            let cores = counts.get(id).copied().unwrap_or(0);
            assert_eq!(self.allocator.cores_of(*id), cores, "{id:?}");
            assert!(cores <= program.most(), "{cores} cores for {program:?}");
        }
        for (at, order) in self.orders.iter().enumerate() {
            let Order::Grant { kthread, core, by, .. } = *order else { continue };
            // One that has just been granted may have to make room for a guaranteed one at once.
            let evicts = |later: &Order| matches!(later, Order::Grant { by: HandOver::Evict(victim), .. } if *victim == kthread);
            if self.orders[at..].iter().any(evicts) {
                continue;
            }
            let holding = self.allocator.holding(core);
            assert_eq!(place.get(&kthread), Some(&holding), "{order:?}");
            match by {
                HandOver::Evict(victim) => {
                    assert_eq!(holding, Holding::Leaving(victim, Some(kthread)), "{order:?}");
                }
                _ => assert_eq!(holding, Holding::Held(kthread), "{order:?}"),
            }
        }
    }
}
