//! Delivery (clause 2.7): the oldest order of each of ten districts, each by itself (2.7.2.1 allows that).

use super::Ended;
use crate::draw::Draw;
use crate::store::Store;

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let warehouse = store.warehouse(draw.number(1, store.scale().warehouses));
    let carrier = draw.number(1, 10) as u8;
    let (now, mut delivered) = (store.now(), 0);
    for district in &warehouse.districts {
        let mut rows = district.lock();
        let Some(id) = rows.new_orders.pop_first() else { continue };
        let Some(order) = rows.orders.get_mut(&id) else { continue };
        order.carrier = Some(carrier);
        let mut amount = 0;
        for line in &mut order.lines {
            line.delivery = Some(now);
            amount += line.amount;
        }
        let mut customer = district.customer(order.customer).lock();
        customer.balance += amount;
        customer.deliveries += 1;
        delivered += 1;
    }
    Ended::Committed(delivered)
}
