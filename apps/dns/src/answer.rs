//! Answers as bytes: names compressed, as long as the client takes, truncated by whole sections.

use crate::MAX_DATAGRAM;
use crate::find::{Owned, Plan};
use crate::query::{Edns, Query};
use crate::zone::{Sought, Zones};
use domain::base::iana::{Class, OptRcode, Rtype};
use domain::base::message::Message;
use domain::base::message_builder::{
    AdditionalBuilder, AnswerBuilder, PushError, RecordSectionBuilder,
};
use domain::base::rdata::ComposeRecordData;
use domain::base::{MessageBuilder, StaticCompressor};

/// The longest datagram for a client without EDNS (RFC 1035 §4.2.1).
const PLAIN: u16 = 512;

/// Bytes of an OPT record without options.
const OPT: usize = 11;

type Bytes = StaticCompressor<Vec<u8>>;

/// Writes the answer to `message` into `out`, which is emptied first; nothing, where none is to be given:
/// what is no message, or itself an answer. `is_datagram` is asked where it is longer than a
/// datagram may be, whether it is to be one.
pub fn respond(
    zones: &Zones,
    message: &[u8],
    is_datagram: impl FnOnce() -> bool,
    out: &mut Vec<u8>,
) {
    out.clear();
    let Ok(message) = Message::from_slice(message) else { return };
    if message.header().qr() {
        return;
    }
    let query = Query::parse(message);
    let plan = match &query.question {
        Err(code) => Plan::code(*code),
        Ok(question) => {
            let name = question.name.for_slice();
            let sought = Sought::new(&name);
            let in_zone = zones.of(&sought, question.rtype == Rtype::DS);
            match in_zone.filter(|_| question.class == Class::IN && is_served(question.rtype)) {
                Some(zone) => Plan::of(zone, name, question.rtype),
                None => Plan::code(OptRcode::REFUSED),
            }
        }
    };
    let answer = Answer { message, plan, edns: query.edns };
    let most = query.edns.map_or(PLAIN, |edns| edns.payload.clamp(PLAIN, MAX_DATAGRAM));
    if answer.write(most.into(), out) {
        return;
    }
    if is_datagram() || !answer.write(u16::MAX.into(), out) {
        answer.truncated(out);
    }
}

/// Transfers are refused (RFC 5936 §2.2.1), and so are types that stand for something else than records.
fn is_served(rtype: Rtype) -> bool {
    !matches!(rtype, Rtype::AXFR | Rtype::IXFR | Rtype::MAILB | Rtype::MAILA | Rtype::OPT)
}

struct Answer<'z> {
    message: &'z Message<[u8]>,
    plan: Plan<'z>,
    edns: Option<Edns>,
}

impl Answer<'_> {
    /// Header and question, in the buffer of `out`.
    fn begin(&self, most: usize, out: &mut Vec<u8>) -> MessageBuilder<Bytes> {
        out.clear();
        let target = StaticCompressor::new(std::mem::take(out));
        // A vector takes what it gets.
        let mut builder = MessageBuilder::from_target(target).expect("a vector has room");
        builder.set_push_limit(most - if self.edns.is_some() { OPT } else { 0 });
        let header = builder.header_mut();
        header.set_id(self.message.header().id());
        header.set_qr(true);
        header.set_opcode(self.message.header().opcode());
        header.set_rd(self.message.header().rd());
        header.set_rcode(self.plan.rcode.rcode());
        header.set_aa(self.plan.authoritative);
        builder
    }

    /// The question, where there is one alone.
    fn ask(&self, builder: MessageBuilder<Bytes>) -> AnswerBuilder<Bytes> {
        let mut builder = builder.question();
        if let Ok(question) = self.message.sole_question() {
            // It came in a message, and fits into one.
            let _ = builder.push(question);
        }
        builder.answer()
    }

    /// All of it; false: it does not fit.
    fn write(&self, most: usize, out: &mut Vec<u8>) -> bool {
        let mut answer = self.ask(self.begin(most, out));
        let mut fits = self.plan.answer.iter().all(|records| push(&mut answer, *records).is_ok());
        let mut authority = answer.authority();
        fits &= self.plan.authority.is_none_or(|records| push(&mut authority, records).is_ok());
        let mut additional = authority.additional();
        for extra in &self.plan.additional {
            let room = additional.push_limit().unwrap_or(most) - additional.as_slice().len();
            if extra.needed {
                fits &= push(&mut additional, extra.records).is_ok();
            } else if size(extra.records) <= room {
                // A set is there with all of its records, or not at all (RFC 2181 §9).
                fits &= push(&mut additional, extra.records).is_ok();
            }
        }
        self.end(additional, most, out);
        fits
    }

    /// The question alone: ask again, by TCP.
    fn truncated(&self, out: &mut Vec<u8>) {
        let mut builder = self.begin(PLAIN.into(), out);
        builder.header_mut().set_tc(true);
        let additional = self.ask(builder).additional();
        self.end(additional, PLAIN.into(), out);
    }

    /// EDNS, for those who have it.
    fn end(&self, mut additional: AdditionalBuilder<Bytes>, most: usize, out: &mut Vec<u8>) {
        if let Some(edns) = self.edns {
            additional.set_push_limit(most);
            let pushed = additional.opt(|opt| {
                opt.set_udp_payload_size(MAX_DATAGRAM);
                opt.set_dnssec_ok(edns.dnssec_ok);
                opt.set_rcode(self.plan.rcode);
                Ok(())
            });
            pushed.expect("room was kept for it");
        }
        *out = additional.finish().into_target();
    }
}

/// Adds the records of a set.
fn push(
    section: &mut impl RecordSectionBuilder<Bytes>,
    (owner, set): Owned<'_>,
) -> Result<(), PushError> {
    set.data.iter().try_for_each(|data| section.push((owner, Class::IN, set.ttl, data)))
}

/// Bytes that a set takes at most.
fn size((owner, set): Owned<'_>) -> usize {
    let one = |data: &crate::zone::Data| {
        owner.len() + 10 + usize::from(data.rdlen(false).unwrap_or(u16::MAX))
    };
    set.data.iter().map(one).sum()
}
