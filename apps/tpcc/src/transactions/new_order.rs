//! NewOrder (clause 2.4): 5 to 15 rows of stock, and then a new number from the district.

use super::{Ended, elsewhere, place};
use crate::draw::Draw;
use crate::rows::{DistrictRows, Order, OrderLine, StockRow};
use crate::store::Store;
use curtail::sync::MutexGuard;
use std::sync::Arc;

/// A line that is asked for.
#[derive(Clone, Copy)]
struct Wanted {
    item: u32,
    supplier: u32,
    quantity: u8,
    /// Where it stands in the order.
    at: usize,
}

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let (w, d) = place(store, draw);
    let customer = draw.customer(store.scale().customers);
    let mut wanted = asked(store, draw, w);
    // Rows of stock are locked in one order by all; the item that there is none of comes last.
    wanted.sort_by_key(|line| (line.supplier, line.item));

    let warehouse = store.warehouse(w);
    let district = warehouse.district(d);
    let mut held = Vec::with_capacity(wanted.len());
    let mut lines: Vec<Option<OrderLine>> = vec![None; wanted.len()];
    let mut total = 0;
    for line in &wanted {
        let Some(made) = fill(store, line, (w, d), &mut held) else {
            undo(held);
            return Ended::RolledBack;
        };
        total += made.amount;
        lines[line.at] = Some(made);
    }
    let lines: Vec<OrderLine> = lines.into_iter().flatten().collect();
    let all_local = lines.iter().all(|line| line.supplier == w);
    let order = Arc::new(Order {
        customer,
        entry: store.now(),
        carrier: None,
        line_count: lines.len() as u8,
        all_local,
        lines,
    });
    // Only now has it a number: the district is what all its orders want.
    enter(&mut district.lock(), order);
    drop(held);
    let discount = district.customer(customer).facts.discount;
    let taxed = 10_000 + warehouse.tax + district.tax;
    Ended::Committed(total * (10_000 - discount) / 10_000 * taxed / 10_000)
}

fn asked(store: &Store, draw: &mut Draw, w: u32) -> Vec<Wanted> {
    let items = store.scale().items;
    let count = draw.number(5, 15) as usize;
    let fails = draw.percent(1);
    let line = |draw: &mut Draw, at| {
        // One in a hundred comes from another warehouse.
        let supplier = if draw.percent(1) { elsewhere(store, draw, w) } else { w };
        Wanted { item: draw.item(items), supplier, quantity: draw.number(1, 10) as u8, at }
    };
    let mut wanted: Vec<_> = (0..count).map(|at| line(draw, at)).collect();
    if fails {
        let last = &mut wanted[count - 1];
        (last.item, last.supplier) = (items + 1, store.scale().warehouses);
    }
    wanted
}

/// A row of stock that is locked, and what it was before.
struct Held<'s> {
    place: (u32, u32),
    row: MutexGuard<'s, StockRow>,
    before: StockRow,
}

/// Takes a line's items from the stock; `None`: there is no such item.
fn fill<'s>(
    store: &'s Store,
    line: &Wanted,
    (w, d): (u32, u32),
    held: &mut Vec<Held<'s>>,
) -> Option<OrderLine> {
    let item = store.item(line.item)?;
    let stock = store.warehouse(line.supplier).stock(line.item)?;
    let place = (line.supplier, line.item);
    // The same item may stand in several lines, one after the other.
    if held.last().is_none_or(|last| last.place != place) {
        let row = stock.lock();
        held.push(Held { place, before: *row, row });
    }
    let row = &mut held.last_mut()?.row;
    let quantity = i32::from(line.quantity);
    row.quantity -= quantity;
    if row.quantity < 10 {
        row.quantity += 91;
    }
    row.ytd += u32::from(line.quantity);
    row.orders += 1;
    row.remote += u32::from(line.supplier != w);
    Some(OrderLine {
        item: line.item,
        supplier: line.supplier,
        delivery: None,
        quantity: line.quantity,
        amount: i64::from(line.quantity) * item.price,
        district_info: stock.facts.districts[d as usize - 1],
    })
}

fn undo(held: Vec<Held<'_>>) {
    for mut held in held {
        *held.row = held.before;
    }
}

fn enter(rows: &mut DistrictRows, order: Arc<Order>) {
    let id = rows.next_order;
    rows.next_order += 1;
    rows.last_order.insert(order.customer, id);
    rows.new_orders.insert(id);
    rows.orders.insert(id, order);
}
