//! The integration tests, one program: what it takes to link them is spent once.

mod by_hand;
mod machine;

mod allocation;
mod by_class;
mod by_rank;
mod darc;
mod darc_histories;
mod definitions;
mod plans;
mod presets;
mod properties;
mod thief;
