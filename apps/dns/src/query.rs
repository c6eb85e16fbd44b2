//! What a query asks for, and whether it is one.

use domain::base::iana::{Class, Opcode, OptRcode, Rtype};
use domain::base::message::Message;
use domain::base::opt::{Opt, OptRecord};
use domain::base::{Name, ParsedName, ToName};
use domain::dep::octseq::Octets;

/// What EDNS (RFC 6891) says of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edns {
    pub payload: u16,
    pub dnssec_ok: bool,
}

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub name: Name<Vec<u8>>,
    pub rtype: Rtype,
    pub class: Class,
}

/// A query as far as it was understood.
#[derive(Debug)]
pub(crate) struct Query {
    /// `Err`: what is wrong with it.
    pub question: Result<Question, OptRcode>,
    pub edns: Option<Edns>,
}

impl Query {
    /// From a message that is no answer.
    pub(crate) fn parse(message: &Message<[u8]>) -> Self {
        if message.header().opcode() != Opcode::QUERY {
            // What follows may have another form: nothing of it is looked at but EDNS.
            let edns = opt(message).ok().flatten().and_then(|opt| edns(&opt).ok());
            return Self { question: Err(OptRcode::NOTIMP), edns };
        }
        match opt(message) {
            Err(FormErr) => Self { question: Err(OptRcode::FORMERR), edns: None },
            Ok(None) => Self { question: question(message), edns: None },
            Ok(Some(opt)) => match edns(&opt) {
                Ok(edns) => Self { question: question(message), edns: Some(edns) },
                Err(edns) => Self { question: Err(OptRcode::BADVERS), edns: Some(edns) },
            },
        }
    }
}

/// The message is malformed.
#[derive(Debug)]
struct FormErr;

/// EDNS; `Err`: of a version that is not known.
fn edns<O: Octets>(opt: &OptRecord<O>) -> Result<Edns, Edns> {
    let edns = Edns { payload: opt.udp_payload_size(), dnssec_ok: opt.dnssec_ok() };
    if opt.version() == 0 { Ok(edns) } else { Err(edns) }
}

fn question(message: &Message<[u8]>) -> Result<Question, OptRcode> {
    let question = message.sole_question().map_err(|_| OptRcode::FORMERR)?;
    let (rtype, class) = (question.qtype(), question.qclass());
    let name: &ParsedName<_> = question.qname();
    Ok(Question { name: name.to_name(), rtype, class })
}

/// The OPT record; looks at all of the message.
fn opt(message: &Message<[u8]>) -> Result<Option<OptRecord<&[u8]>>, FormErr> {
    let mut found = None;
    let mut section = message.answer().map_err(|_| FormErr)?;
    for _ in 0..2 {
        for record in section.by_ref() {
            record.map_err(|_| FormErr)?;
        }
        section = section.next_section().map_err(|_| FormErr)?.ok_or(FormErr)?;
    }
    for record in section.by_ref() {
        let record = record.map_err(|_| FormErr)?;
        if record.rtype() != Rtype::OPT {
            continue;
        }
        let is_root = record.owner().is_root();
        let opt = record.into_record::<Opt<_>>().map_err(|_| FormErr)?.ok_or(FormErr)?;
        if !is_root || found.replace(OptRecord::from(opt)).is_some() {
            return Err(FormErr);
        }
    }
    if section.pos() == message.as_slice().len() { Ok(found) } else { Err(FormErr) }
}
