//! What the servers speak, as the load generator needs it: requests of a class with an id, and
//! answers that bring the id back.

use super::own::Own;
use super::plain::{Plain, Status};
use super::socket::Came;
use curtail_workload::Class;
use kv_app::protocol as kv;

/// Which application the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// Serves as long as the request says
    Spin,
    /// A key-value store
    Kv,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of the request.
    pub id: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// Service time as the server measured it; 0: it did not say.
    pub service_ns: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was served.
    Done,
    /// The server had no room for it.
    Overloaded,
    /// The server could not make sense of it, or failed.
    Failed,
}

/// Writes requests and reads answers of one application.
#[derive(Debug)]
pub enum Wire {
    /// Of a server that serves as long as the request says.
    Spin,
    /// Of a key-value store.
    Kv(Kv),
    /// Of any server of HTTP, Redis' protocol or memcached's.
    Plain(Box<Plain>),
    /// Of any protocol of datagrams or frames.
    Own(Box<Own>),
}

/// Requests of a `kv` server.
#[derive(Debug)]
pub struct Kv {
    /// What each class of the workload does.
    opcodes: Vec<kv::Opcode>,
    keys: u32,
    value: Vec<u8>,
}

impl Wire {
    /// For the classes of a workload. A `kv` server's are told by their names.
    ///
    /// # Errors
    /// A class has the name of no operation.
    pub fn new(app: App, classes: &[Class], keys: u32, value: usize) -> Result<Self, String> {
        if app == App::Spin {
            return Ok(Self::Spin);
        }
        let opcode = |class: &Class| {
            let found = kv::Opcode::ALL.into_iter().find(|opcode| opcode.name() == class.name);
            found.ok_or_else(|| {
                let known = kv::Opcode::ALL.map(kv::Opcode::name).join(", ");
                format!("kv has no operation `{}`; name the classes {known}", class.name)
            })
        };
        let opcodes = classes.iter().map(opcode).collect::<Result<_, _>>()?;
        Ok(Self::Kv(Kv { opcodes, keys, value: vec![0; value] }))
    }

    /// Replaces what is in `out` by a request. `random`: decides keys and values.
    pub(crate) fn request(
        &mut self,
        (id, class, service_ns): (u64, u16, u32),
        random: u64,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        match self {
            Self::Spin => {
                let request = spin::protocol::Request { tag: id, class, service_ns };
                out.extend_from_slice(&request.encode());
            }
            Self::Kv(kv) => kv.request(id, class, random, out),
            Self::Plain(plain) => plain.request(class, random, out),
            Self::Own(own) => own.request(id, class, random, out),
        }
    }

    /// How many requests may be under way at a time and still be told apart.
    pub(super) fn most_under_way(&self) -> usize {
        match self {
            Self::Own(own) => own.most_under_way(),
            _ => usize::MAX,
        }
    }

    /// What came says of itself, where that is not an application of ours.
    pub(super) fn status(&self, came: &Came<'_>) -> Option<Status> {
        match self {
            Self::Plain(plain) => Some(plain.status(came).0),
            _ => None,
        }
    }

    /// What came says of a request; `None`: nothing. Over HTTP the status says something too.
    pub(crate) fn outcome(&self, came: Came<'_>) -> Option<Answer> {
        if let Self::Plain(plain) = self {
            let (id, _) = came.of?;
            return Some(Answer { id, outcome: plain.status(&came).1, service_ns: 0 });
        }
        if let Self::Own(own) = self {
            return own.outcome(came);
        }
        let by_status = |(id, status)| {
            let outcome = if status == 503 { Outcome::Overloaded } else { Outcome::Failed };
            Answer { id, outcome, service_ns: 0 }
        };
        self.answer(came.bytes).or_else(|| came.of.map(by_status))
    }

    /// The status of an answer over HTTP that is none of the application's: another server listens.
    pub(super) fn foreign(&self, came: &Came<'_>) -> Option<u16> {
        let (_, status) = came.of.filter(|_| matches!(self, Self::Spin | Self::Kv(_)))?;
        // These the transport of ours answers itself: what it refuses, and what it has no answer to.
        let ours = [0, 400, 413, 414, 417, 431, 500, 503, 504, 505];
        (!ours.contains(&status) && self.answer(came.bytes).is_none()).then_some(status)
    }

    /// Reads an answer; `None`: it is none.
    fn answer(&self, bytes: &[u8]) -> Option<Answer> {
        match self {
            Self::Plain(_) | Self::Own(_) => None,
            Self::Spin => {
                let answer = spin::protocol::Answer::decode(bytes)?;
                let outcome = match answer.status {
                    spin::protocol::Status::Done => Outcome::Done,
                    spin::protocol::Status::Overloaded => Outcome::Overloaded,
                    spin::protocol::Status::Malformed => Outcome::Failed,
                };
                Some(Answer { id: answer.tag, outcome, service_ns: 0 })
            }
            Self::Kv(_) => {
                let reply = kv::Reply::parse(bytes).ok()?;
                let outcome = match reply.status {
                    kv::Status::Ok | kv::Status::NotFound => Outcome::Done,
                    kv::Status::Overloaded => Outcome::Overloaded,
                    kv::Status::BadRequest | kv::Status::Failed => Outcome::Failed,
                };
                Some(Answer { id: reply.id, outcome, service_ns: reply.service_ns })
            }
        }
    }
}

impl Kv {
    fn request(&mut self, id: u64, class: u16, random: u64, out: &mut Vec<u8>) {
        // The upper half of a 64 × 32 bit product is uniform below the number of keys.
        let index = ((u128::from(random) * u128::from(self.keys)) >> 64) as u32;
        let key = kv_app::load::key(index);
        let op = match self.opcodes[usize::from(class)] {
            kv::Opcode::Get => kv::Op::Get { key: &key },
            kv::Opcode::Put => {
                kv_app::load::fill_value(random, &mut self.value);
                kv::Op::Put { key: &key, value: &self.value }
            }
            kv::Opcode::Delete => kv::Op::Delete { key: &key },
            kv::Opcode::Scan => kv::Op::Scan { start: &[], end: &[], limit: kv::NO_LIMIT },
        };
        let written = kv::Request { id, op }.write(out);
        debug_assert!(written.is_ok(), "lengths are checked where options are read: {written:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_workload::Mix;

    #[test]
    fn spin_requests_carry_class_and_service() {
        let mut wire = Wire::new(App::Spin, &[], 1, 0).unwrap();
        let mut out = vec![9];
        wire.request((7, 1, 500), 0, &mut out);
        let request = spin::protocol::Request::decode(&out).unwrap();
        assert_eq!((request.tag, request.class, request.service_ns), (7, 1, 500));
        let overloaded =
            spin::protocol::Answer::to(&request, spin::protocol::Status::Overloaded).encode();
        let answer = wire.answer(&overloaded).unwrap();
        assert_eq!((answer.id, answer.outcome), (7, Outcome::Overloaded));
        assert_eq!(wire.answer(b"short"), None);
        let came = |bytes, status| Came { bytes, of: Some((9, status)) };
        let outcome = |came| wire.outcome(came).map(|answer| (answer.id, answer.outcome));
        assert_eq!(outcome(came(&overloaded, 503)), Some((7, Outcome::Overloaded)));
        assert_eq!(outcome(came(b"", 503)), Some((9, Outcome::Overloaded)));
        assert_eq!(outcome(came(b"what?", 200)), Some((9, Outcome::Failed)));
        assert_eq!(outcome(Came { bytes: b"what?", of: None }), None);
        for status in [400, 500, 503, 504] {
            assert_eq!(wire.foreign(&came(b"it failed", status)), None, "{status}");
        }
        for status in [200, 301, 404, 405, 501] {
            assert_eq!(wire.foreign(&came(b"a page", status)), Some(status));
        }
        assert_eq!(wire.foreign(&came(&overloaded, 200)), None);
    }

    #[test]
    fn kv_classes_are_operations() {
        let mix = Mix::parse("scan:1us:1,put:1us:1").unwrap();
        let mut wire = Wire::new(App::Kv, mix.classes(), 100, 33).unwrap();
        let mut out = Vec::new();
        wire.request((7, 0, 0), u64::MAX, &mut out);
        let request = kv::Request::parse(&out).unwrap();
        assert_eq!((request.id, request.op.opcode()), (7, kv::Opcode::Scan));
        wire.request((8, 1, 0), u64::MAX, &mut out);
        let kv::Op::Put { key, value } = kv::Request::parse(&out).unwrap().op else {
            panic!("not a PUT")
        };
        assert_eq!((key, value.len()), (&kv_app::load::key(99)[..], 33));
        let bad = Mix::parse("short:1us:1").unwrap();
        assert!(Wire::new(App::Kv, bad.classes(), 1, 0).unwrap_err().contains("`short`"));
    }
}
