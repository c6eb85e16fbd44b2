//! StockLevel (clause 2.8): the items of a district's last twenty orders, and which of them are scarce.

use super::{Ended, place};
use crate::draw::Draw;
use crate::store::Store;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many orders are looked at.
const ORDERS: u32 = 20;

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let (w, d) = place(store, draw);
    let threshold = draw.number(10, 20) as i32;
    let warehouse = store.warehouse(w);
    let orders: Vec<_> = {
        let rows = warehouse.district(d).lock();
        let from = rows.next_order.saturating_sub(ORDERS);
        rows.orders.range(from..).map(|(_, order)| Arc::clone(order)).collect()
    };
    let lines = orders.iter().flat_map(|order| &order.lines);
    let items: BTreeSet<u32> = lines.map(|line| line.item).collect();
    // What is committed will do here (2.8.2.3), so each row is locked by itself.
    let is_scarce = |item: &&u32| {
        warehouse.stock(**item).is_some_and(|stock| stock.lock().quantity < threshold)
    };
    Ended::Committed(items.iter().filter(is_scarce).count() as i64)
}
