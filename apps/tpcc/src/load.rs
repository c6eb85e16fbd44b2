//! What the tables hold at the start (clause 4.3.3), the same for the same scale.

use crate::draw::{Draw, last_name};
use crate::rows::{
    Address, CustomerFacts, CustomerRow, DistrictRows, History, Item, Order, OrderLine, StockFacts,
    StockRow,
};
use crate::store::{Customer, DISTRICTS, District, Scale, Stock, Store, Warehouse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Store {
    /// Tables as they are before the first transaction.
    ///
    /// # Panics
    /// A scale of nothing.
    #[must_use]
    pub fn load(scale: Scale) -> Self {
        let Scale { warehouses, items, customers } = scale;
        assert!(warehouses > 0 && items > 0 && customers > 0, "tables hold something: {scale:?}");
        let mut draw = Draw::new(1);
        let all = (0..items).map(|_| item(&mut draw)).collect();
        let warehouses = (1..=warehouses).map(|number| warehouse(&mut draw, number, scale));
        let warehouses = warehouses.collect();
        Self::new(scale, all, warehouses)
    }
}

fn address(draw: &mut Draw) -> Address {
    Address {
        street_1: draw.letters(10, 20),
        street_2: draw.letters(10, 20),
        city: draw.letters(10, 20),
        state: draw.letters(2, 2),
        zip: draw.digits(4) + "11111",
    }
}

/// Data, one in ten of them with "ORIGINAL" in it.
fn data(draw: &mut Draw) -> String {
    let mut text = draw.letters(26, 50);
    if draw.percent(10) {
        let at = draw.number(0, text.len() as u32 - 8) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

fn info(draw: &mut Draw) -> [u8; 24] {
    draw.letters(24, 24).into_bytes().try_into().expect("24 letters")
}

fn item(draw: &mut Draw) -> Item {
    Item {
        image: draw.number(1, 10_000),
        name: draw.letters(14, 24),
        price: draw.cents(100, 10_000),
        data: data(draw),
    }
}

fn warehouse(draw: &mut Draw, number: u32, scale: Scale) -> Warehouse {
    let stock = |draw: &mut Draw| {
        let facts = StockFacts { districts: std::array::from_fn(|_| info(draw)), data: data(draw) };
        let quantity = draw.number(10, 100) as i32;
        Stock::new(facts, StockRow { quantity, ytd: 0, orders: 0, remote: 0 })
    };
    let stock = (0..scale.items).map(|_| stock(draw)).collect();
    let districts = (1..=DISTRICTS).map(|of| district(draw, (number, of), scale)).collect();
    let about = (draw.letters(6, 10), address(draw), draw.cents(0, 2_000));
    // 1,000 for each customer, of which each has paid 10.
    let ytd = 1_000 * i64::from(DISTRICTS * scale.customers);
    Warehouse::new(about, ytd, districts, stock)
}

fn district(draw: &mut Draw, (warehouse, number): (u32, u32), scale: Scale) -> District {
    let customers: Vec<_> = (1..=scale.customers).map(|number| customer(draw, number)).collect();
    let mut rows = DistrictRows {
        ytd: 1_000 * i64::from(scale.customers),
        next_order: scale.customers + 1,
        orders: BTreeMap::new(),
        new_orders: BTreeSet::new(),
        last_order: BTreeMap::new(),
        history: Vec::new(),
    };
    for customer in 1..=scale.customers {
        let (customer, data) = ((warehouse, number, customer), draw.letters(12, 24));
        rows.history.push(History { customer, date: 0, amount: 1_000, data });
    }
    for (id, customer) in (1..).zip(draw.shuffled(scale.customers)) {
        let delivered = id <= scale.customers * 7 / 10;
        let order = order(draw, (warehouse, customer), scale, delivered);
        rows.orders.insert(id, Arc::new(order));
        rows.last_order.insert(customer, id);
        if !delivered {
            rows.new_orders.insert(id);
        }
    }
    let about = (draw.letters(6, 10), address(draw), draw.cents(0, 2_000));
    District::new(about, rows, customers)
}

fn customer(draw: &mut Draw, number: u32) -> Customer {
    // The first thousand have all names there are.
    let last = if number <= 1_000 { number - 1 } else { draw.loaded_name() };
    let facts = CustomerFacts {
        first: draw.letters(8, 16),
        middle: "OE",
        last: last_name(last),
        address: address(draw),
        phone: draw.digits(16),
        since: 0,
        good_credit: !draw.percent(10),
        credit_limit: 5_000_000,
        discount: draw.cents(0, 5_000),
    };
    let row = CustomerRow {
        balance: -1_000,
        ytd_payment: 1_000,
        payments: 1,
        deliveries: 0,
        data: draw.letters(300, 500),
    };
    Customer::new(facts, row)
}

fn order(
    draw: &mut Draw,
    (warehouse, customer): (u32, u32),
    scale: Scale,
    delivered: bool,
) -> Order {
    let line = |draw: &mut Draw| OrderLine {
        item: draw.number(1, scale.items),
        supplier: warehouse,
        delivery: delivered.then_some(0),
        quantity: 5,
        amount: if delivered { 0 } else { draw.cents(1, 999_999) },
        district_info: info(draw),
    };
    let lines: Vec<_> = (0..draw.number(5, 15)).map(|_| line(draw)).collect();
    Order {
        customer,
        entry: 0,
        carrier: delivered.then(|| draw.number(1, 10) as u8),
        line_count: lines.len() as u8,
        all_local: true,
        lines,
    }
}
