//! The tables, by the keys that transactions look them up by, and their locks.
//!
//! A transaction locks what it writes, and what it reads of that others write, and gives it back at its
//! end (two-phase locking): rows of stock by warehouse and item, then a customer, then a district, then
//! a warehouse. All do so in this order, so none waits for another in a circle, and what all want is
//! held for the shortest time. What can be made ready before is.
//!
//! (Silo locks at its end alone, in one order as well, and looks again at what it has read.)
//!
//! The lock of a district is also that of the orders in it. A holder may be pre-empted: the locks are the
//! runtime's, and who waits for one leaves its worker to others.

use crate::rows::{
    Address, CustomerFacts, CustomerRow, DistrictRows, Item, StockFacts, StockRow, WarehouseRow,
};
use curtail::sync::{Mutex, MutexGuard, PoisonError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u32 = 10;

/// How much the tables hold at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Items, each of which every warehouse has in stock.
    pub items: u32,
    /// Customers of each of a warehouse's ten districts; as many orders, seven in ten of them delivered.
    pub customers: u32,
}

impl Scale {
    /// As clause 1.2.1 has it.
    #[must_use]
    pub const fn of(warehouses: u32) -> Self {
        Self { warehouses, items: 100_000, customers: 3_000 }
    }

    /// Small tables, for tests.
    #[must_use]
    pub const fn small(warehouses: u32) -> Self {
        Self { warehouses, items: 1_000, customers: 60 }
    }
}

pub(crate) struct Warehouse {
    pub name: String,
    #[allow(dead_code, reason = "as in `rows`")]
    pub address: Address,
    pub tax: i64,
    row: Mutex<WarehouseRow>,
    pub districts: Vec<District>,
    stock: Vec<Stock>,
}

pub(crate) struct District {
    pub name: String,
    #[allow(dead_code, reason = "as in `rows`")]
    pub address: Address,
    pub tax: i64,
    rows: Mutex<DistrictRows>,
    customers: Vec<Customer>,
    /// Customers of a last name, by first name.
    by_last: HashMap<String, Vec<u32>>,
}

pub(crate) struct Customer {
    pub facts: CustomerFacts,
    row: Mutex<CustomerRow>,
}

pub(crate) struct Stock {
    pub facts: StockFacts,
    row: Mutex<StockRow>,
}

/// The tables.
pub struct Store {
    scale: Scale,
    items: Vec<Item>,
    warehouses: Vec<Warehouse>,
    clock: AtomicU64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("scale", &self.scale).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A transaction undoes what it did before it panics, or has done nothing yet.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Warehouse {
    pub(crate) fn new(
        (name, address, tax): (String, Address, i64),
        ytd: i64,
        districts: Vec<District>,
        stock: Vec<Stock>,
    ) -> Self {
        Self { name, address, tax, row: Mutex::new(WarehouseRow { ytd }), districts, stock }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WarehouseRow> {
        lock(&self.row)
    }

    /// A district, by number from 1.
    pub(crate) fn district(&self, number: u32) -> &District {
        &self.districts[number as usize - 1]
    }

    /// The stock of an item, by number from 1; `None`: there is no such item.
    pub(crate) fn stock(&self, item: u32) -> Option<&Stock> {
        self.stock.get((item as usize).wrapping_sub(1))
    }

    pub(crate) fn all_stock(&self) -> &[Stock] {
        &self.stock
    }
}

impl District {
    pub(crate) fn new(
        (name, address, tax): (String, Address, i64),
        rows: DistrictRows,
        customers: Vec<Customer>,
    ) -> Self {
        let mut by_last: HashMap<String, Vec<u32>> = HashMap::new();
        for (number, customer) in (1..).zip(&customers) {
            by_last.entry(customer.facts.last.clone()).or_default().push(number);
        }
        for numbers in by_last.values_mut() {
            numbers.sort_by_key(|number| &customers[*number as usize - 1].facts.first);
        }
        Self { name, address, tax, rows: Mutex::new(rows), customers, by_last }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DistrictRows> {
        lock(&self.rows)
    }

    /// A customer, by number from 1.
    pub(crate) fn customer(&self, number: u32) -> &Customer {
        &self.customers[number as usize - 1]
    }

    pub(crate) fn customers(&self) -> &[Customer] {
        &self.customers
    }

    /// The one in the middle of those with a last name (clause 2.5.2.2), if there is any.
    pub(crate) fn by_last(&self, name: &str) -> Option<u32> {
        let all = self.by_last.get(name)?;
        Some(all[all.len().div_ceil(2) - 1])
    }
}

impl Customer {
    pub(crate) fn new(facts: CustomerFacts, row: CustomerRow) -> Self {
        Self { facts, row: Mutex::new(row) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CustomerRow> {
        lock(&self.row)
    }
}

impl Stock {
    pub(crate) fn new(facts: StockFacts, row: StockRow) -> Self {
        Self { facts, row: Mutex::new(row) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StockRow> {
        lock(&self.row)
    }
}

impl Store {
    pub(crate) fn new(scale: Scale, items: Vec<Item>, warehouses: Vec<Warehouse>) -> Self {
        Self { scale, items, warehouses, clock: AtomicU64::new(1) }
    }

    /// What it began with.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// A warehouse, by number from 1.
    pub(crate) fn warehouse(&self, number: u32) -> &Warehouse {
        &self.warehouses[number as usize - 1]
    }

    pub(crate) fn warehouses(&self) -> &[Warehouse] {
        &self.warehouses
    }

    /// An item, by number from 1, if there is one.
    pub(crate) fn item(&self, number: u32) -> Option<&Item> {
        self.items.get((number as usize).wrapping_sub(1))
    }

    /// A time that is later than all before.
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}
