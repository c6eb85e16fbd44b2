//! The integration tests, one program: what it takes to link them is spent once.

mod common;

mod html;
mod partial;
mod schema;
mod table;
