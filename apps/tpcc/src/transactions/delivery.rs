//! Delivery (clause 2.7): the oldest order of each of ten districts, each by itself (2.7.2.1 allows that).

use super::Ended;
use crate::draw::Draw;
use crate::store::{District, Store};
use std::sync::Arc;

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let warehouse = store.warehouse(draw.number(1, store.scale().warehouses));
    let carrier = draw.number(1, 10) as u8;
    let now = store.now();
    let one = |district: &&District| deliver(district, carrier, now);
    Ended::Committed(warehouse.districts.iter().filter(one).count() as i64)
}

/// The oldest order of a district; false: all are delivered.
fn deliver(district: &District, carrier: u8, now: u64) -> bool {
    loop {
        // Customers are locked before districts: whose order it is, is looked at first, and again.
        let oldest = {
            let rows = district.lock();
            let id = rows.new_orders.first().copied();
            id.and_then(|id| rows.orders.get(&id).map(|order| (id, order.customer)))
        };
        let Some((id, customer)) = oldest else { return false };
        let mut row = district.customer(customer).lock();
        let mut rows = district.lock();
        if rows.new_orders.first() != Some(&id) {
            continue;
        }
        rows.new_orders.pop_first();
        let Some(order) = rows.orders.get_mut(&id) else { continue };
        let order = Arc::make_mut(order);
        order.carrier = Some(carrier);
        for line in &mut order.lines {
            line.delivery = Some(now);
            row.balance += line.amount;
        }
        row.deliveries += 1;
        return true;
    }
}
