//! What the answer to a question consists of (RFC 1034 §4.3.2), before it becomes bytes.

use crate::zone::{Data, Found, Node, RecordSet, Sought, Zone};
use bytes::Bytes;
use domain::base::Name;
use domain::base::iana::{OptRcode, Rtype};
use domain::rdata::ZoneRecordData;

/// CNAME records that are followed: more of them are a client's own affair.
const MOST_ALIASES: usize = 16;

/// Records and whose they are said to be: the asker's name, where a wildcard stands for it.
pub(crate) type Owned<'z> = (&'z Name<[u8]>, &'z RecordSet);

/// Addresses of a name that another record tells of.
#[derive(Debug)]
pub(crate) struct Extra<'z> {
    pub records: Owned<'z>,
    /// Without it, nothing leads to the server that the client is referred to (RFC 9471).
    pub needed: bool,
}

/// The answer's parts.
#[derive(Debug)]
pub(crate) struct Plan<'z> {
    pub rcode: OptRcode,
    pub authoritative: bool,
    pub answer: Vec<Owned<'z>>,
    pub authority: Option<Owned<'z>>,
    pub additional: Vec<Extra<'z>>,
}

impl<'z> Plan<'z> {
    /// Nothing but a code.
    pub(crate) fn code(rcode: OptRcode) -> Self {
        let (answer, additional) = (Vec::new(), Vec::new());
        Self { rcode, authoritative: false, answer, authority: None, additional }
    }

    /// The answer to a question about a name in the zone.
    pub(crate) fn of(zone: &'z Zone, asked: &'z Name<[u8]>, rtype: Rtype) -> Self {
        let mut plan = Self { authoritative: true, ..Self::code(OptRcode::NOERROR) };
        let mut name = asked;
        for _ in 0..=MOST_ALIASES {
            let node = match zone.find(&Sought::new(&name), rtype == Rtype::DS) {
                Found::Node(node) | Found::Wildcard(node) => node,
                Found::Cut(cut) => {
                    plan.refer(zone, cut);
                    return plan;
                }
                Found::Nothing => {
                    plan.rcode = OptRcode::NXDOMAIN;
                    plan.deny(zone);
                    return plan;
                }
            };
            let found = match rtype {
                // One set is enough, and no amplifier (RFC 8482 §4.1).
                Rtype::ANY => node.sets.first(),
                rtype => node.set(rtype),
            };
            if let Some(set) = found {
                plan.answer.push((name, set));
                plan.add_targets(zone, set);
                return plan;
            }
            let Some(alias) = node.set(Rtype::CNAME) else {
                plan.deny(zone);
                return plan;
            };
            plan.answer.push((name, alias));
            let Some(ZoneRecordData::Cname(target)) = alias.data.first() else { return plan };
            name = target.cname().for_slice();
            let seen = plan.answer.iter().any(|(owner, _)| *owner == name);
            if seen || !zone.contains(&name) {
                return plan;
            }
        }
        plan
    }

    /// There is nothing of what was asked for.
    fn deny(&mut self, zone: &'z Zone) {
        self.authority = Some((zone.apex().name.for_slice(), &zone.negative));
    }

    /// Others know.
    fn refer(&mut self, zone: &'z Zone, cut: &'z Node) {
        let Some(servers) = cut.set(Rtype::NS) else { return };
        // Where an alias led here, this much is known for certain.
        self.authoritative = !self.answer.is_empty();
        self.authority = Some((cut.name.for_slice(), servers));
        for name in servers.data.iter().filter_map(target) {
            if zone.contains(name)
                && let Some(node) = zone.exact(&Sought::new(name))
            {
                self.add_addresses(node, name.ends_with(&cut.name));
            }
        }
    }

    /// The addresses of names that these records lead to.
    fn add_targets(&mut self, zone: &'z Zone, set: &'z RecordSet) {
        for name in set.data.iter().filter_map(target) {
            if zone.contains(name)
                && let Found::Node(node) = zone.find(&Sought::new(name), false)
            {
                self.add_addresses(node, false);
            }
        }
    }

    fn add_addresses(&mut self, node: &'z Node, needed: bool) {
        for set in [Rtype::A, Rtype::AAAA].into_iter().filter_map(|rtype| node.set(rtype)) {
            let is_there = |(_, other): &Owned<'_>| std::ptr::eq(*other, set);
            let twice = self.additional.iter().any(|extra| is_there(&extra.records));
            if !twice && !self.answer.iter().any(is_there) {
                self.additional.push(Extra { records: (node.name.for_slice(), set), needed });
            }
        }
    }
}

/// The name whose addresses a client will want next.
fn target(data: &Data) -> Option<&Name<Bytes>> {
    match data {
        ZoneRecordData::Ns(ns) => Some(ns.nsdname()),
        ZoneRecordData::Mx(mx) => Some(mx.exchange()),
        ZoneRecordData::Srv(srv) => Some(srv.target()),
        _ => None,
    }
}
