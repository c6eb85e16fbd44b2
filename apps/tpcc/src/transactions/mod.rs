//! The transactions, a file each (clauses 2.4 to 2.8). Their inputs are what a terminal would enter, drawn
//! from a seed.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use crate::draw::{Draw, last_name};
use crate::store::{DISTRICTS, Store};

/// The five of them; their position is their class in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// A customer pays (2.5).
    Payment,
    /// What became of a customer's last order (2.6).
    OrderStatus,
    /// A customer orders 5 to 15 items (2.4).
    NewOrder,
    /// The oldest order of each district is delivered (2.7).
    Delivery,
    /// How many items of the last orders are scarce (2.8).
    StockLevel,
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has done all; a number that comes of it: a total or a balance in cents, or a count.
    Committed(i64),
    /// It has undone all: one in a hundred orders names an item that there is none of (2.4.1.4).
    RolledBack,
}

impl Transaction {
    /// All, in the order of the papers: the shortest first.
    pub const ALL: [Self; 5] =
        [Self::Payment, Self::OrderStatus, Self::NewOrder, Self::Delivery, Self::StockLevel];

    /// Their shares in a hundred (Perséphone, Table 4).
    pub const SHARES: [u32; 5] = [44, 4, 44, 4, 4];

    /// `payment` and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::NewOrder => "new-order",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }

    /// Runs it, with inputs from `draw`.
    pub fn run(self, store: &Store, draw: &mut Draw) -> Ended {
        match self {
            Self::Payment => payment::run(store, draw),
            Self::OrderStatus => order_status::run(store, draw),
            Self::NewOrder => new_order::run(store, draw),
            Self::Delivery => delivery::run(store, draw),
            Self::StockLevel => stock_level::run(store, draw),
        }
    }
}

/// The terminal's warehouse and district.
fn place(store: &Store, draw: &mut Draw) -> (u32, u32) {
    (draw.number(1, store.scale().warehouses), draw.number(1, DISTRICTS))
}

/// Another warehouse, where there is one.
fn elsewhere(store: &Store, draw: &mut Draw, warehouse: u32) -> u32 {
    match store.scale().warehouses {
        1 => warehouse,
        all => (warehouse + draw.number(1, all - 1) - 1) % all + 1,
    }
}

/// A customer of that district: six in ten by last name, the others by number.
fn customer(store: &Store, draw: &mut Draw, (warehouse, district): (u32, u32)) -> u32 {
    let customers = store.scale().customers;
    if draw.percent(60) {
        let name = last_name(draw.name(customers));
        let found = store.warehouse(warehouse).district(district).by_last(&name);
        found.expect("a district has every name that is drawn")
    } else {
        draw.customer(customers)
    }
}
