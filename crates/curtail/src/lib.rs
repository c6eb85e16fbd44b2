//! Skeleton.
mod app;
pub use app::{App, Class};
/// Skeleton.
#[derive(Debug, Default)]
pub struct Response;
