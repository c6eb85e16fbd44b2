//! TPC-C's five transactions (revision 5.11) on a store in memory, as a server with a class for each.
//!
//! * [`Store`]: the tables, their indexes and their locks, and what they hold at the start (clause 4.3);
//! * [`transactions`]: the transactions (clause 2), with inputs that are drawn from a seed;
//! * [`Store::check`]: what must hold of the tables at any time (clause 3.3.2);
//! * [`Tpcc`]: the server, an [`App`](curtail::App); [`protocol`]: what goes over the wire.
//!
//! It is no TPC-C result: there are no terminals that think, no screens and no disk. What it is for are
//! transactions whose times differ by their nature, and which hold locks while they are pre-empted.
//! The papers profile the same on Silo (Perséphone §5.1, Tiny Quanta §5.1) and then spin for as long.
#![forbid(unsafe_code)]

mod app;
mod check;
mod draw;
mod load;
pub mod protocol;
#[allow(dead_code, reason = "columns that a terminal would show take room in a row, too")]
mod rows;
mod store;
pub mod transactions;

pub use app::Tpcc;
pub use check::Broken;
pub use draw::Draw;
pub use store::{Scale, Store};
pub use transactions::Transaction;
