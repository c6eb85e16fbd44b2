//! What the generator's requests are, by application.

use crate::Source;
use curtail_net::Completion;
use curtail_workload as workload;
use spin::protocol;

/// A request, as it is handed over.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Its class: a position in the workload's mix.
    pub class: usize,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// Makes one request after another, and knows them again when they have ended.
pub trait Requests: Source<Request = Message> + Send {
    /// The class of one that has ended, and the service time that it takes by itself, in
    /// nanoseconds.
    fn completed(&self, completion: &Completion) -> (usize, u64);
}

/// Requests for so much service.
#[derive(Debug)]
pub struct SpinRequests<I>(pub I);

/// The tag tells `completed` what a request was: what the classifier takes it for may be something
/// else.
fn tag(class: usize, service_ns: u32) -> u64 {
    (class as u64) << 32 | u64::from(service_ns)
}

impl<I: Iterator<Item = workload::Request>> Source for SpinRequests<I> {
    type Request = Message;

    fn draw(&mut self, next: &mut Message) -> Option<u64> {
        let workload::Request { at_ns, class, service_ns } = self.0.next()?;
        let service_ns = u32::try_from(service_ns).unwrap_or(u32::MAX);
        let request =
            protocol::Request { tag: tag(usize::from(class), service_ns), class, service_ns };
        next.class = usize::from(class);
        next.payload.clear();
        next.payload.extend_from_slice(&request.encode());
        Some(at_ns)
    }
}

impl<I: Iterator<Item = workload::Request> + Send> Requests for SpinRequests<I> {
    fn completed(&self, completion: &Completion) -> (usize, u64) {
        ((completion.tag >> 32) as usize, completion.tag & u64::from(u32::MAX))
    }
}
