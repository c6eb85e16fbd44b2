//! The integration tests, one program: what it takes to link them is spent once.

mod model;

mod allocation;
mod cancel;
mod properties;
mod record;
mod room;
mod times;
