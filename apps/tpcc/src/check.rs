//! What must hold of the tables at any time (clause 3.3.2), while no transaction runs.

use crate::rows::{DistrictRows, Order};
use crate::store::{DISTRICTS, District, Store};
use std::collections::HashMap;

/// A condition that does not hold: its number in clause 3.3.2, or 0 for what the stock must be; and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Of clause 3.3.2.
    pub condition: u8,
    /// Where, and what was found.
    pub what: String,
}

/// What all warehouses' districts say of the whole.
#[derive(Default)]
struct Sums {
    /// H_AMOUNT by warehouse, district and customer, wherever it was paid.
    paid: HashMap<(u32, u32, u32), i64>,
    /// Quantities ordered by supplier, and lines.
    ordered: HashMap<u32, (u64, u64)>,
    /// The orders that are loaded took nothing from the stock.
    loaded: u32,
}

impl Store {
    /// The conditions that do not hold. No transaction may run.
    #[must_use]
    pub fn check(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut sums = Sums { loaded: self.scale().customers, ..Sums::default() };
        for (w, warehouse) in (1..).zip(self.warehouses()) {
            let (mut district_ytd, mut paid) = (0, 0);
            for (d, district) in (1..=DISTRICTS).zip(&warehouse.districts) {
                let rows = district.lock();
                district_ytd += rows.ytd;
                let history = rows.history.iter().map(|row| row.amount).sum::<i64>();
                paid += history;
                let found = format!("D_YTD {} and H_AMOUNT {history}", rows.ytd);
                hold(&mut broken, 9, (w, d), rows.ytd == history, &found);
                orders_of(&mut broken, (w, d), &rows, &mut sums);
            }
            let ytd = warehouse.lock().ytd;
            let found = format!("W_YTD {ytd}, D_YTD {district_ytd}, H_AMOUNT {paid}");
            hold(&mut broken, 1, (w, 0), ytd == district_ytd, &found);
            hold(&mut broken, 8, (w, 0), ytd == paid, &found);
        }
        for (w, warehouse) in (1..).zip(self.warehouses()) {
            for (d, district) in (1..=DISTRICTS).zip(&warehouse.districts) {
                customers_of(&mut broken, (w, d), district, &sums);
            }
            let rows = warehouse.all_stock().iter().map(|stock| *stock.lock());
            let had = rows.fold((0, 0), |(ytd, orders), row| {
                (ytd + u64::from(row.ytd), orders + u64::from(row.orders))
            });
            let ordered = sums.ordered.get(&w).copied().unwrap_or_default();
            let found = format!("S_YTD and S_ORDER_CNT {had:?}, ordered {ordered:?}");
            hold(&mut broken, 0, (w, 0), had == ordered, &found);
        }
        broken
    }
}

fn hold(broken: &mut Vec<Broken>, condition: u8, place: (u32, u32), holds: bool, found: &str) {
    if !holds {
        let (w, d) = place;
        broken.push(Broken { condition, what: format!("warehouse {w}, district {d}: {found}") });
    }
}

/// Conditions 2 to 7: the orders of a district.
fn orders_of(broken: &mut Vec<Broken>, place: (u32, u32), rows: &DistrictRows, sums: &mut Sums) {
    let last = rows.orders.last_key_value().map_or(0, |(id, _)| *id);
    let found = format!("D_NEXT_O_ID {}, the last O_ID {last}", rows.next_order);
    hold(broken, 2, place, rows.next_order == last + 1, &found);
    if let (Some(first), Some(newest)) = (rows.new_orders.first(), rows.new_orders.last()) {
        let found = format!("D_NEXT_O_ID {}, the last NO_O_ID {newest}", rows.next_order);
        hold(broken, 2, place, rows.next_order == newest + 1, &found);
        let count = rows.new_orders.len() as u32;
        let found = format!("NO_O_ID from {first} to {newest}, {count} of them");
        hold(broken, 3, place, newest - first + 1 == count, &found);
    }
    let said: usize = rows.orders.values().map(|order| usize::from(order.line_count)).sum();
    let are: usize = rows.orders.values().map(|order| order.lines.len()).sum();
    hold(broken, 4, place, said == are, &format!("O_OL_CNT {said}, lines {are}"));
    for (id, order) in &rows.orders {
        let is_new = rows.new_orders.contains(id);
        let found = format!("order {id}, carrier {:?}, new {is_new}", order.carrier);
        hold(broken, 5, place, order.carrier.is_none() == is_new, &found);
        let count = order.lines.len();
        let found = format!("order {id} of {} lines has {count}", order.line_count);
        hold(broken, 6, place, usize::from(order.line_count) == count, &found);
        let like = |delivered: Option<u64>| delivered.is_some() == order.carrier.is_some();
        let all = order.lines.iter().all(|line| like(line.delivery));
        hold(broken, 7, place, all, &format!("order {id}: a line is not delivered as it is"));
        if *id > sums.loaded {
            count_lines(order, sums);
        }
    }
    for row in &rows.history {
        *sums.paid.entry(row.customer).or_default() += row.amount;
    }
}

fn count_lines(order: &Order, sums: &mut Sums) {
    for line in &order.lines {
        let ordered = sums.ordered.entry(line.supplier).or_default();
        ordered.0 += u64::from(line.quantity);
        ordered.1 += 1;
    }
}

/// Conditions 10 and 12: the customers of a district.
fn customers_of(broken: &mut Vec<Broken>, place: (u32, u32), district: &District, sums: &Sums) {
    let mut delivered: HashMap<u32, i64> = HashMap::new();
    for order in district.lock().orders.values().filter(|order| order.carrier.is_some()) {
        let amount = order.lines.iter().map(|line| line.amount).sum::<i64>();
        *delivered.entry(order.customer).or_default() += amount;
    }
    for (number, customer) in (1..).zip(district.customers()) {
        let row = customer.lock();
        let had = delivered.get(&number).copied().unwrap_or(0);
        let paid = sums.paid.get(&(place.0, place.1, number)).copied().unwrap_or(0);
        let found = format!(
            "customer {number}: C_BALANCE {}, C_YTD_PAYMENT {}, delivered {had}, paid {paid}",
            row.balance, row.ytd_payment
        );
        hold(broken, 10, place, row.balance == had - paid, &found);
        hold(broken, 12, place, row.balance + row.ytd_payment == had, &found);
    }
}
