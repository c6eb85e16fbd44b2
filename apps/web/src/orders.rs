//! A database of orders, in SQLite.
//!
//! A query has a connection to itself, so that one that is pre-empted holds up no other. Connections
//! that are not used are kept.

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

const ORDERS: u32 = 30_000;
const CUSTOMERS: u32 = 500;
const BEST: &str = "SELECT customer, count(*), sum(cents) FROM orders \
                    GROUP BY customer ORDER BY sum(cents) DESC, customer LIMIT ?1";

/// What a customer has spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// The customer's name.
    pub customer: String,
    /// In how many orders.
    pub orders: u32,
    /// In all.
    pub cents: u64,
}

/// The orders. Their file goes with this.
pub struct Orders {
    file: PathBuf,
    unused: Mutex<Vec<Connection>>,
    _directory: TempDir,
}

impl Orders {
    /// Makes the database, the same every time.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn make() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("orders.sqlite");
        let mut connection = Connection::open(&file)?;
        connection.execute_batch("CREATE TABLE orders (customer TEXT, cents INTEGER)")?;
        let all = connection.transaction()?;
        {
            let mut insert = all.prepare("INSERT INTO orders VALUES (?1, ?2)")?;
            for n in 0..ORDERS {
                let customer = n.wrapping_mul(2_654_435_761) % CUSTOMERS;
                insert.execute((format!("customer {customer}"), 100 + n % 9_973))?;
            }
        }
        all.commit()?;
        Ok(Self { file, unused: Mutex::default(), _directory: directory })
    }

    /// The customers who spent most, the first of them first.
    ///
    /// # Errors
    /// SQLite's own.
    pub fn best(&self, customers: u32) -> rusqlite::Result<Vec<Spent>> {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = unused.map_or_else(|| self.connect(), Ok)?;
        let best = {
            let mut query = connection.prepare_cached(BEST)?;
            let rows = query.query_map([customers], |row| {
                Ok(Spent { customer: row.get(0)?, orders: row.get(1)?, cents: row.get(2)? })
            })?;
            rows.collect::<rusqlite::Result<_>>()?
        };
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(best)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        // One thread at a time has it, so SQLite needs no lock for it.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(&self.file, flags)
    }
}
