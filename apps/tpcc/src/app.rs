//! The server: all workers share the tables, and keep nothing.

use crate::draw::Draw;
use crate::protocol::{Request, Status, answer};
use crate::store::Store;
use crate::transactions::Transaction;
use curtail::{App, Class, ClassId, Response, WorkerId};
use std::sync::Arc;

/// The transactions as an application of the runtime, each a class, in the order of
/// [`Transaction::ALL`]. What is malformed is answered at once and counts as a payment.
#[derive(Clone, Debug)]
pub struct Tpcc {
    store: Arc<Store>,
}

impl Tpcc {
    /// Over these tables.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store }
    }
}

impl App for Tpcc {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        Transaction::ALL.into_iter().map(|each| Class::named(each.name())).collect()
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(Request::decode(request).map_or(0, |request| request.transaction as u16))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let (status, result) = match Request::decode(request) {
            Some(Request { transaction, seed, .. }) => {
                transaction.run(&self.store, &mut Draw::new(seed)).into()
            }
            None => (Status::Malformed, 0),
        };
        response.write(&answer(request, status, result));
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        response.clear();
        response.write(&answer(request, Status::Failed, 0));
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        response.write(&answer(request, Status::Overloaded, 0));
    }
}
