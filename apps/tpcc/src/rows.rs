//! The rows of the nine tables (clause 1.3). Money is in cents, rates in ten-thousandths, times are
//! numbers that only grow.
//!
//! Columns that no transaction writes stand in types of their own, outside of any lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A street, a city and so on.
#[derive(Debug)]
pub(crate) struct Address {
    pub street_1: String,
    pub street_2: String,
    pub city: String,
    pub state: String,
    pub zip: String,
}

/// What is written of a WAREHOUSE.
#[derive(Debug)]
pub(crate) struct WarehouseRow {
    pub ytd: i64,
}

/// What is written in a district: its own row, and the rows that belong to it.
#[derive(Debug)]
pub(crate) struct DistrictRows {
    pub ytd: i64,
    pub next_order: u32,
    /// ORDER, by O_ID. Who reads one keeps it as it was; who changes it changes a copy then.
    pub orders: BTreeMap<u32, Arc<Order>>,
    /// NEW-ORDER: orders that are not delivered.
    pub new_orders: BTreeSet<u32>,
    /// The last order of each customer, by C_ID.
    pub last_order: BTreeMap<u32, u32>,
    /// HISTORY.
    pub history: Vec<History>,
}

/// An ORDER with its ORDER-LINEs.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub customer: u32,
    pub entry: u64,
    pub carrier: Option<u8>,
    pub line_count: u8,
    pub all_local: bool,
    pub lines: Vec<OrderLine>,
}

/// An ORDER-LINE.
#[derive(Clone, Debug)]
pub(crate) struct OrderLine {
    pub item: u32,
    pub supplier: u32,
    pub delivery: Option<u64>,
    pub quantity: u8,
    pub amount: i64,
    pub district_info: [u8; 24],
}

/// A payment: who paid, and where (warehouse and district of the customer, who may be another's).
#[derive(Debug)]
pub(crate) struct History {
    pub customer: (u32, u32, u32),
    pub date: u64,
    pub amount: i64,
    pub data: String,
}

/// What no transaction writes of a CUSTOMER.
#[derive(Debug)]
pub(crate) struct CustomerFacts {
    pub first: String,
    pub middle: &'static str,
    pub last: String,
    pub address: Address,
    pub phone: String,
    pub since: u64,
    pub good_credit: bool,
    pub credit_limit: i64,
    pub discount: i64,
}

/// What is written of a CUSTOMER.
#[derive(Debug)]
pub(crate) struct CustomerRow {
    pub balance: i64,
    pub ytd_payment: i64,
    pub payments: u32,
    pub deliveries: u32,
    pub data: String,
}

/// What is written of a STOCK row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StockRow {
    pub quantity: i32,
    pub ytd: u32,
    pub orders: u32,
    pub remote: u32,
}

/// What no transaction writes of it.
#[derive(Debug)]
pub(crate) struct StockFacts {
    pub districts: [[u8; 24]; 10],
    pub data: String,
}

/// An ITEM.
#[derive(Debug)]
pub(crate) struct Item {
    pub image: u32,
    pub name: String,
    pub price: i64,
    pub data: String,
}
