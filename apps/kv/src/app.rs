//! The server: requests of [`crate::protocol`] against one [`Store`] that all workers share.
//!
//! Handlers run on fibers and keep nothing in the worker: a pre-empted one may be anywhere in
//! LevelDB except inside one of its critical sections.

use crate::engine::Engine;
use crate::load;
use crate::protocol::{
    Checksum, MAX_KEY, MAX_LISTED, MAX_VALUE, Op, Opcode, ProtocolError, ReplyWriter, Request,
    Status, opcode_of,
};
use crate::store::{KeyRange, Store};
use crate::types::{StoreError, StoreOptions};
use curtail::clock::{self, Clock};
use curtail::{App, Class, Response, served_cycles};
use curtail_policy::{ClassId, WorkerId};
use std::ops::ControlFlow;

/// What the server starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvOptions {
    /// How many keys of [`load::key`] are there from the start.
    pub keys: u32,
    /// How long their values are, in bytes.
    pub value_bytes: usize,
    /// What keeps them.
    pub engine: Engine,
    /// The store's own options.
    pub store: StoreOptions,
}

impl Default for KvOptions {
    /// The papers' 15,000 keys (Concord §5.3), with values of 64 bytes.
    fn default() -> Self {
        let (engine, store) = (Engine::default(), StoreOptions::default());
        Self { keys: load::PAPER_KEYS, value_bytes: 64, engine, store }
    }
}

/// LevelDB as an application of the runtime. Its classes are `get`, `put`, `delete` and `scan`, in
/// the order of [`Opcode::ALL`]; a malformed request is answered at once and counts as a `get`.
#[derive(Debug)]
pub struct KvApp {
    options: KvOptions,
    store: Store,
    clock: Clock,
}

impl KvApp {
    /// An application over a new store; [`App::setup`] loads the keys.
    ///
    /// # Errors
    /// What LevelDB says, or a value length beyond [`MAX_VALUE`].
    pub fn open(options: KvOptions) -> Result<Self, StoreError> {
        if options.value_bytes > MAX_VALUE {
            let text = format!("values of {} bytes: {MAX_VALUE} at most", options.value_bytes);
            return Err(StoreError::InvalidArgument(text));
        }
        let store = Store::open_with(options.engine, &options.store)?;
        Ok(Self { options, store, clock: Clock::get() })
    }

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Serves one request: appends exactly one reply to `out`, whatever `request` is. The reply's
    /// service time is that on a core where a [`curtail::Server`] calls, and all the time that this
    /// call took elsewhere.
    pub fn serve(&self, request: &[u8], out: &mut Vec<u8>) {
        let started = clock::now();
        let mut reply = ReplyWriter::to_bytes(out, request);
        let outcome = match Request::parse(request) {
            Ok(request) => self.execute(&request.op, &mut reply).map_err(Refusal::from),
            Err(error) => Err(Refusal::Bad(error)),
        };
        // On a fiber: without what it was pre-empted for.
        let cycles = served_cycles().unwrap_or_else(|| clock::now() - started);
        let service_ns = self.clock.ns(cycles).max(1);
        match outcome {
            Ok(Outcome::Ended(status)) => reply.finish(status, service_ns),
            Ok(Outcome::Scanned(entries, sum)) => reply.finish_scan(service_ns, entries, sum),
            Err(Refusal::Bad(error)) => {
                reply.finish_error(Status::BadRequest, service_ns, &error.to_string());
            }
            Err(Refusal::Failed(error)) => {
                reply.finish_error(Status::Failed, service_ns, &error.to_string());
            }
        }
    }

    fn execute(&self, op: &Op<'_>, reply: &mut ReplyWriter<'_>) -> Result<Outcome, StoreError> {
        match *op {
            Op::Get { key } => {
                let found = self.store.get_into(key, reply.body())?;
                Ok(Outcome::Ended(if found { Status::Ok } else { Status::NotFound }))
            }
            Op::Put { key, value } => {
                self.store.put(key, value)?;
                Ok(Outcome::Ended(Status::Ok))
            }
            Op::Delete { key } => {
                self.store.delete(key)?;
                Ok(Outcome::Ended(Status::Ok))
            }
            Op::Scan { start, end, limit } => self.scan(start, end, limit, reply),
        }
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        limit: u32,
        reply: &mut ReplyWriter<'_>,
    ) -> Result<Outcome, StoreError> {
        let range = KeyRange { start, end: Some(end).filter(|end| !end.is_empty()) };
        let mut sum = Checksum::default();
        let mut entries = 0_u32;
        self.store.scan(range, limit as usize, |key, value| {
            if (entries as usize) < MAX_LISTED {
                reply.list(key);
            }
            sum.entry(key, value);
            entries += 1;
            ControlFlow::Continue(())
        })?;
        Ok(Outcome::Scanned(entries, sum))
    }
}

/// What came of a request that was executed.
enum Outcome {
    Ended(Status),
    Scanned(u32, Checksum),
}

/// Why one was not.
enum Refusal {
    Bad(ProtocolError),
    Failed(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl App for KvApp {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        Opcode::ALL.into_iter().map(|opcode| Class::named(opcode.name())).collect()
    }

    fn setup(&self) -> Result<(), String> {
        let mut value = vec![0; self.options.value_bytes];
        for index in 0..self.options.keys {
            load::fill_value(u64::from(index), &mut value);
            self.store.put(&load::key(index), &value).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn setup_worker(&self, _worker: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(opcode_of(request).map_or(0, |opcode| opcode.index() as u16))
    }

    fn handle(&self, _worker: &(), request: &[u8], response: &mut Response) {
        self.serve(request, response.as_mut_vec());
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        // Whatever the handler had written of its own reply must not go out before this one.
        response.clear();
        ReplyWriter::to_bytes(response.as_mut_vec(), request).finish_error(
            Status::Failed,
            0,
            "the handler failed",
        );
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        ReplyWriter::to_bytes(response.as_mut_vec(), request).finish(Status::Overloaded, 0);
    }
}

const _: () = assert!(load::KEY_LENGTH <= MAX_KEY);
