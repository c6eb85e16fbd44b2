//! Transactions one after the other, and that what must hold would be missed.

use std::collections::HashMap;
use tpcc::transactions::Ended;
use tpcc::{Draw, Scale, Store, Transaction};

#[test]
fn tables_are_whole_from_the_start() {
    assert_eq!(Store::load(Scale::small(2)).check(), []);
}

#[test]
fn each_transaction_does_its_part() {
    let store = Store::load(Scale::small(3));
    let mut ended: HashMap<(Transaction, bool), u32> = HashMap::new();
    let (mut delivered, mut low) = (0, 0);
    for seed in 0..10_000 {
        let transaction = Transaction::ALL[(seed % 5) as usize];
        let result = transaction.run(&store, &mut Draw::new(seed));
        *ended.entry((transaction, result == Ended::RolledBack)).or_default() += 1;
        match (transaction, result) {
            (Transaction::Delivery, Ended::Committed(count)) => delivered += count,
            (Transaction::StockLevel, Ended::Committed(count)) => low += count,
            (Transaction::NewOrder, Ended::Committed(total)) => assert!(total > 0),
            _ => {}
        }
    }
    assert_eq!(store.check(), []);
    let rolled_back = ended[&(Transaction::NewOrder, true)];
    assert!((5..60).contains(&rolled_back), "one in a hundred of 2,000: {rolled_back}");
    assert_eq!(ended.len(), 6, "no other rolls back: {ended:?}");
    assert!(delivered > 1_000 && low > 0, "{delivered} {low}");
}

#[test]
fn the_same_seeds_make_the_same_tables() {
    let run = || {
        let store = Store::load(Scale::small(2));
        let one =
            |seed: u64| Transaction::ALL[(seed % 5) as usize].run(&store, &mut Draw::new(seed));
        (0..2_000).map(one).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn one_warehouse_has_no_other_to_order_from() {
    let store = Store::load(Scale { warehouses: 1, items: 100, customers: 10 });
    for seed in 0..3_000 {
        Transaction::ALL[(seed % 5) as usize].run(&store, &mut Draw::new(seed));
    }
    assert_eq!(store.check(), []);
}
