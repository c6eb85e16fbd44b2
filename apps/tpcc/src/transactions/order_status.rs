//! OrderStatus (clause 2.6): reads a customer and all lines of the last order.

use super::{Ended, customer, place};
use crate::draw::Draw;
use crate::rows::OrderLine;
use crate::store::Store;
use std::sync::Arc;

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let (w, d) = place(store, draw);
    let number = customer(store, draw, (w, d));
    let district = store.warehouse(w).district(d);
    let (balance, last) = {
        let row = district.customer(number).lock();
        let rows = district.lock();
        let last = rows.last_order.get(&number).and_then(|id| rows.orders.get(id));
        (row.balance, last.map(Arc::clone))
    };
    // As they were then: who delivers them makes new ones.
    let line =
        |line: &OrderLine| line.amount + i64::from(line.quantity) + line.delivery.map_or(0, |_| 1);
    let shown: i64 = last.iter().flat_map(|order| &order.lines).map(line).sum();
    std::hint::black_box(shown);
    Ended::Committed(balance)
}
