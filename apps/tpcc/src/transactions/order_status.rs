//! OrderStatus (clause 2.6): reads a customer and all lines of the last order.

use super::{Ended, customer, place};
use crate::draw::Draw;
use crate::store::Store;

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let (w, d) = place(store, draw);
    let number = customer(store, draw, (w, d));
    let district = store.warehouse(w).district(d);
    let rows = district.lock();
    let balance = district.customer(number).lock().balance;
    let last = rows.last_order.get(&number).and_then(|id| rows.orders.get(id));
    let shown = last.map_or(0, |order| {
        let line = |line: &crate::rows::OrderLine| {
            line.amount + i64::from(line.quantity) + line.delivery.map_or(0, |_| 1)
        };
        order.lines.iter().map(line).sum()
    });
    Ended::Committed(balance.wrapping_add(std::hint::black_box(shown)))
}
