//! What holds of every kthread's choice: it conserves work, leaves no kthread out, looks at few,
//! allocates nothing, and follows from its seed.

use curtail_policy::{Kind, Load, Loot, Mix, Nanos, Theft, Thief, Victim, WorkerId};
use proptest::prelude::*;
use std::num::NonZeroU32;

const MOST: usize = 64;

#[derive(Clone, Debug)]
struct Machine {
    me: usize,
    loads: Vec<Load>,
    sibling: bool,
    order: Victim,
    seed: u64,
}

impl Machine {
    fn thief(&self) -> Thief {
        // Siblings are neighbours: 0 and 1, 2 and 3; the last may have none.
        let sibling = Some(self.me ^ 1).filter(|&it| self.sibling && it < self.loads.len());
        let sibling = sibling.map(|it| WorkerId(it as u16));
        let me = WorkerId(self.me as u16);
        Thief::new(me, self.loads.len(), sibling, self.seed).with_order(self.order)
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Load)> {
        self.loads.iter().enumerate().filter(|(kthread, _)| *kthread != self.me)
    }
}

fn machine() -> impl Strategy<Value = Machine> {
    let load = prop_oneof![
        3 => Just(Load::default()),
        1 => (0_u32..4, 0_u32..3, 0_u64..100).prop_map(|(ready, incoming, since)| {
            Load { ready, incoming, since: Nanos(since), ..Load::default() }
        }),
    ];
    let order = prop::sample::select(Victim::ALL);
    (
        prop::collection::vec(load, 1..=MOST),
        any::<prop::sample::Index>(),
        any::<bool>(),
        order,
        any::<u64>(),
    )
        .prop_map(|(loads, me, sibling, order, seed)| Machine {
            me: me.index(loads.len()),
            loads,
            sibling,
            order,
            seed,
        })
}

proptest! {
    #[test]
    fn whoever_has_something_is_found_in_one_call(machine in machine()) {
        let mut thief = machine.thief();
        let anybody = machine.others().any(|(_, load)| !load.is_empty());
        // Over many calls: the far look and the near one alike.
        for _ in 0..40 {
            let mut looks = 0;
            let theft = thief.next(|kthread| {
                looks += 1;
                machine.loads[kthread.index()]
            });
            prop_assert_eq!(theft.is_some(), anybody);
            prop_assert!(looks <= machine.loads.len() + 1, "{looks} looks");
            if let Some(Theft { victim, loot }) = theft {
                let load = machine.loads[victim.index()];
                prop_assert!(victim.index() != machine.me);
                prop_assert!(loot.of(load.ready as usize) > 0
                    || loot == Loot::Incoming && load.ready == 0 && load.incoming > 0);
            }
        }
    }

    /// Loads change at will, but one kthread always has something.
    #[test]
    fn nobody_is_forgotten(
        mut machine in machine(),
        victim in any::<prop::sample::Index>(),
        changes in prop::collection::vec((0..MOST, 0_u32..3), MOST * Thief::FAR_EVERY as usize),
    ) {
        machine.order = Victim::Random;
        prop_assume!(machine.loads.len() > 1);
        let victim = victim.index(machine.loads.len());
        prop_assume!(victim != machine.me);
        machine.loads[victim].ready = 2;
        let mut thief = machine.thief();
        let bound = Thief::FAR_EVERY as usize * (machine.loads.len() - 1);
        let found = changes[..bound].iter().any(|&(kthread, ready)| {
            let kthread = kthread % machine.loads.len();
            if kthread != victim {
                machine.loads[kthread].ready = ready;
            }
            let theft = thief.next(|kthread| machine.loads[kthread.index()]);
            theft.is_some_and(|theft| theft.victim.index() == victim)
        });
        prop_assert!(found, "not within {bound} thefts");
    }

    #[test]
    fn the_same_seed_chooses_the_same(machine in machine()) {
        let choices = || {
            let mut thief = machine.thief();
            let next = |_| thief.next(|kthread| machine.loads[kthread.index()]);
            (0..40).map(next).collect::<Vec<_>>()
        };
        prop_assert_eq!(choices(), choices());
    }

    #[test]
    fn the_longest_and_the_oldest_are(machine in machine()) {
        let stocked = || machine.others().filter(|(_, load)| !load.is_empty()).map(|(_, load)| load);
        if let Some(theft) = machine.thief().next(|kthread| machine.loads[kthread.index()]) {
            let load = machine.loads[theft.victim.index()];
            let total = |load: &Load| load.ready + load.incoming;
            match machine.order {
                Victim::Random => {}
                Victim::Longest => prop_assert_eq!(Some(total(&load)), stocked().map(total).max()),
                Victim::Oldest => {
                    prop_assert_eq!(Some(load.since), stocked().map(|load| load.since).min());
                }
            }
        }
    }

    /// While both kinds wait, neither has more than its turns in a row, and without that bound it
    /// is the older one's turn. If only one kind waits, it has the turn.
    #[test]
    fn both_kinds_get_on(
        most in 1_u32..6,
        waits in prop::collection::vec((prop::option::of(0_u64..50), prop::option::of(0_u64..50)), 1..200),
    ) {
        let mut mix = Mix::new(NonZeroU32::new(most).unwrap());
        let mut row = (None, 0);
        for (request, thread) in waits {
            let kind = mix.pick(request.map(Nanos), thread.map(Nanos));
            match (request, thread) {
                (None, None) => prop_assert_eq!(kind, None),
                (Some(_), None) => prop_assert_eq!(kind, Some(Kind::Request)),
                (None, Some(_)) => prop_assert_eq!(kind, Some(Kind::Thread)),
                (Some(request), Some(thread)) => {
                    let bounded = row.1 == most;
                    row = if row.0 == kind { (kind, row.1 + 1) } else { (kind, 1) };
                    prop_assert!(row.1 <= most);
                    if !bounded && request != thread {
                        let older = if request < thread { Kind::Request } else { Kind::Thread };
                        prop_assert_eq!(kind, Some(older));
                    }
                    continue;
                }
            }
            if kind.is_some() {
                row = (kind, 0);
            }
        }
    }
}

#[test]
fn kthreads_with_one_seed_choose_differently() {
    let choices = |me: u16| {
        let mut thief = Thief::new(WorkerId(me), 32, None, 1);
        let next = |_| thief.next(|_| Load { ready: 1, ..Load::default() });
        (0..20).map(next).map(|theft| theft.unwrap().victim.0).collect::<Vec<_>>()
    };
    assert!((2..30).all(|me| choices(me) != choices(me + 1)));
}

#[test]
fn nothing_is_allocated() {
    let mut thief = Thief::new(WorkerId(3), MOST, Some(WorkerId(2)), 1);
    let mut mix = Mix::new(NonZeroU32::MIN);
    let counted = allocation_counter::measure(|| {
        for round in 0..1_000_u32 {
            let load = |kthread: WorkerId| {
                let ready = u32::from((u32::from(kthread.0) * 7 + round).is_multiple_of(50));
                Load { ready, ..Load::default() }
            };
            let theft = thief.next(load);
            let kind = mix.pick(Some(Nanos(u64::from(round % 3))), Some(Nanos(1)));
            std::hint::black_box((theft, kind));
        }
    });
    assert_eq!(counted.count_total, 0);
}
