//! The integration tests, one program: what it takes to link them is spent once.

mod dashboard;
mod dump;
mod observe;
mod prometheus;
mod stall;
