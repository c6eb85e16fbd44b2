//! Queries as bytes, and answers as text.

use dns::{Zone, Zones, respond};
use domain::base::iana::{Class, Opcode, Rtype};
use domain::base::message::Message;
use domain::base::name::Name;
use domain::base::{MessageBuilder, ParsedRecord};
use domain::rdata::ZoneRecordData;
use std::fmt::Write;
use std::path::Path;

/// The zone of the tests.
pub(crate) fn example() -> Zones {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut zones = Zones::default();
    zones.add(Zone::load("example.com", &folder.join("example.com.zone")).unwrap()).unwrap();
    zones
}

/// A query; `payload`: with EDNS, for so long a datagram.
pub(crate) fn query(name: &str, rtype: Rtype, payload: Option<u16>) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(4_711);
    builder.header_mut().set_opcode(Opcode::QUERY);
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((Name::vec_from_str(name).unwrap(), rtype, Class::IN)).unwrap();
    let mut builder = builder.additional();
    if let Some(payload) = payload {
        let opt = builder.opt(|opt| {
            opt.set_udp_payload_size(payload);
            opt.set_dnssec_ok(true);
            Ok(())
        });
        opt.unwrap();
    }
    builder.finish()
}

/// The answer to a datagram.
pub(crate) fn answer(zones: &Zones, message: &[u8]) -> Vec<u8> {
    let mut out = b"what was there before".to_vec();
    respond(zones, message, || true, &mut out);
    out
}

/// An answer, a record a line: its section, name, TTL, type and data. First come code and flags.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let message = Message::from_slice(bytes).expect("an answer has a header");
    let header = message.header();
    assert!(header.qr() && !header.ra() && !header.ad() && header.id() == 4_711);
    let mut text = message.opt_rcode().to_string();
    for (flag, name) in [(header.aa(), " aa"), (header.tc(), " tc")] {
        text.push_str(if flag { name } else { "" });
    }
    text.push('\n');
    let (_, answer, authority, additional) = message.sections().expect("all of it is there");
    for (name, section) in [("an", answer), ("au", authority), ("ad", additional)] {
        for record in section {
            one(&mut text, name, record.expect("records are whole"));
        }
    }
    text
}

fn one(text: &mut String, section: &str, record: ParsedRecord<'_, [u8]>) {
    if record.rtype() == Rtype::OPT {
        return;
    }
    let record = record.into_record::<ZoneRecordData<_, _>>().unwrap().expect("all are read");
    let (ttl, rtype) = (record.ttl().as_secs(), record.rtype());
    writeln!(text, "{section} {}. {ttl} {rtype} {}", record.owner(), record.data()).unwrap();
}
