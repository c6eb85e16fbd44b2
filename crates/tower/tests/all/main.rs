//! The integration tests, one program: what it takes to link them is spent once.

mod book;
mod executors;
mod layer;
