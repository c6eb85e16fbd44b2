//! Payment (clause 2.5): light, and every one of a warehouse writes its row.

use super::{Ended, customer, elsewhere, place};
use crate::draw::Draw;
use crate::rows::History;
use crate::store::{DISTRICTS, Store};
use std::fmt::Write;

/// The longest C_DATA.
const MOST_DATA: usize = 500;

pub(super) fn run(store: &Store, draw: &mut Draw) -> Ended {
    let (w, d) = place(store, draw);
    // Fifteen in a hundred pay at another warehouse than their own.
    let (their_w, their_d) = match draw.percent(85) {
        true => (w, d),
        false => (elsewhere(store, draw, w), draw.number(1, DISTRICTS)),
    };
    let number = customer(store, draw, (their_w, their_d));
    let amount = draw.cents(100, 500_000);

    let warehouse = store.warehouse(w);
    let district = warehouse.district(d);
    let payer = store.warehouse(their_w).district(their_d).customer(number);
    let data = format!("{}    {}", warehouse.name, district.name);
    let paid = History { customer: (their_w, their_d, number), date: store.now(), amount, data };

    let mut row = payer.lock();
    row.balance -= amount;
    row.ytd_payment += amount;
    row.payments += 1;
    if !payer.facts.good_credit {
        let mut data = String::with_capacity(MOST_DATA + 80);
        // A string takes what is written to it.
        let _ = write!(data, "{number} {their_d} {their_w} {d} {w} {amount}|{}", row.data);
        data.truncate(MOST_DATA);
        row.data = data;
    }
    let mut rows = district.lock();
    rows.ytd += amount;
    rows.history.push(paid);
    warehouse.lock().ytd += amount;
    Ended::Committed(row.balance)
}
