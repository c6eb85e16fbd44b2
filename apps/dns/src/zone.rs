//! Zones in memory: a tree of names each, read by every worker and changed by none.
//!
//! A node's children are found by their label in lower case, so a name is found from the zone's apex
//! downwards, and a delegation on the way is met before what lies below it.

use bytes::Bytes;
use domain::base::iana::Rtype;
use domain::base::{Name, ToName, Ttl};
use domain::rdata::ZoneRecordData;
use std::collections::HashMap;

/// A record's data.
pub(crate) type Data = ZoneRecordData<Bytes, Name<Bytes>>;

/// The records of one name and type.
#[derive(Debug)]
pub(crate) struct RecordSet {
    pub rtype: Rtype,
    pub ttl: Ttl,
    pub data: Vec<Data>,
}

/// A name. It may have no records of its own, where only names below it have some.
#[derive(Debug)]
pub(crate) struct Node {
    pub name: Name<Bytes>,
    pub sets: Vec<RecordSet>,
    children: HashMap<Box<[u8]>, usize>,
}

impl Node {
    fn new(name: Name<Bytes>) -> Self {
        Self { name, sets: Vec::new(), children: HashMap::new() }
    }

    /// Its records of that type.
    pub(crate) fn set(&self, rtype: Rtype) -> Option<&RecordSet> {
        self.sets.iter().find(|set| set.rtype == rtype)
    }
}

/// A name in lower case, and where its labels begin.
pub(crate) struct Sought {
    bytes: [u8; 255],
    length: usize,
    starts: [u8; 128],
    labels: usize,
}

impl Sought {
    pub(crate) fn new(name: &impl ToName) -> Self {
        let mut sought = Self { bytes: [0; 255], length: 0, starts: [0; 128], labels: 0 };
        for label in name.iter_labels() {
            sought.starts[sought.labels] = sought.length as u8;
            sought.labels += usize::from(!label.is_root());
            sought.bytes[sought.length] = label.len() as u8;
            let to = &mut sought.bytes[sought.length + 1..sought.length + 1 + label.len()];
            to.copy_from_slice(label.as_slice());
            to.make_ascii_lowercase();
            sought.length += 1 + label.len();
        }
        sought
    }

    /// Labels, the root's not counted.
    pub(crate) fn labels(&self) -> usize {
        self.labels
    }

    /// The name's last `labels` labels, as they stand in a message.
    fn suffix(&self, labels: usize) -> &[u8] {
        &self.bytes[usize::from(self.starts[self.labels - labels])..self.length]
    }

    /// A label, counted from the end: 0 is the one before the root.
    fn label(&self, from_end: usize) -> &[u8] {
        let suffix = self.suffix(from_end + 1);
        &suffix[1..=usize::from(suffix[0])]
    }
}

/// A zone: what a zone file says.
#[derive(Debug)]
pub struct Zone {
    /// The apex is the first.
    nodes: Vec<Node>,
    /// Labels of the apex.
    labels: usize,
    /// The SOA record with the time that a negative answer may be kept (RFC 2308 §3).
    pub(crate) negative: RecordSet,
}

/// Where a name leads to.
pub(crate) enum Found<'z> {
    /// It is there.
    Node(&'z Node),
    /// A wildcard stands for it.
    Wildcard(&'z Node),
    /// It is delegated: by this node, at it or above it.
    Cut(&'z Node),
    /// There is no such name.
    Nothing,
}

impl Zone {
    /// One with nothing but its apex.
    pub(crate) fn new(apex: Name<Bytes>) -> Self {
        let labels = apex.label_count() - 1;
        let negative = RecordSet { rtype: Rtype::SOA, ttl: Ttl::ZERO, data: Vec::new() };
        Self { nodes: vec![Node::new(apex)], labels, negative }
    }

    pub(crate) fn apex(&self) -> &Node {
        &self.nodes[0]
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// How many names have records.
    #[must_use]
    pub fn names(&self) -> usize {
        self.nodes().filter(|node| !node.sets.is_empty()).count()
    }

    pub(crate) fn contains(&self, name: &impl ToName) -> bool {
        name.ends_with(&self.apex().name)
    }

    /// The node of a name within the zone, made with all above it where it is new.
    pub(crate) fn node_mut(&mut self, name: &Name<Bytes>) -> &mut Node {
        let sought = Sought::new(name);
        let mut at = 0;
        for depth in self.labels..sought.labels() {
            let label = sought.label(depth);
            at = match self.nodes[at].children.get(label) {
                Some(child) => *child,
                None => {
                    let labels_below = sought.labels() - depth - 1;
                    let suffix = name.iter_suffixes().nth(labels_below);
                    let new = self.nodes.len();
                    self.nodes.push(Node::new(suffix.expect("it has as many labels")));
                    self.nodes[at].children.insert(label.into(), new);
                    new
                }
            };
        }
        &mut self.nodes[at]
    }

    fn child(&self, node: &Node, label: &[u8]) -> Option<&Node> {
        node.children.get(label).map(|child| &self.nodes[*child])
    }

    /// The node of exactly this name, whether it is delegated or not.
    pub(crate) fn exact(&self, name: &Sought) -> Option<&Node> {
        (self.labels..name.labels())
            .try_fold(self.apex(), |node, depth| self.child(node, name.label(depth)))
    }

    /// Where a name within the zone leads to (RFC 1034 §4.3.2, step 3). `parent`: what is asked for is
    /// on the parent's side of a cut (RFC 4035 §3.1.4.1), so that one at the name itself does not count.
    pub(crate) fn find(&self, name: &Sought, parent: bool) -> Found<'_> {
        let mut node = self.apex();
        for depth in self.labels..name.labels() {
            let Some(child) = self.child(node, name.label(depth)) else {
                // The wildcard right below the closest name that is there, and no other (RFC 4592).
                return self.child(node, b"*").map_or(Found::Nothing, Found::Wildcard);
            };
            node = child;
            let is_last = depth + 1 == name.labels();
            if !(parent && is_last) && node.set(Rtype::NS).is_some() {
                return Found::Cut(node);
            }
        }
        Found::Node(node)
    }
}

/// The zones that a server has.
#[derive(Debug, Default)]
pub struct Zones {
    /// By the apex, in lower case, as it stands in a message.
    by_apex: HashMap<Box<[u8]>, Zone>,
    /// Labels of the apex that has most.
    most_labels: usize,
}

impl Zones {
    /// Adds one; gives it back if there is one of that name.
    ///
    /// # Errors
    /// The zone, where there is one of that name.
    pub fn add(&mut self, zone: Zone) -> Result<(), Box<Zone>> {
        let sought = Sought::new(&zone.apex().name);
        let key: Box<[u8]> = sought.suffix(sought.labels()).into();
        if self.by_apex.contains_key(&key) {
            return Err(Box::new(zone));
        }
        self.most_labels = self.most_labels.max(sought.labels());
        self.by_apex.insert(key, zone);
        Ok(())
    }

    /// The zone that is to answer for a name: the one with the longest apex. What is on the parent's
    /// side of a cut (`parent`) is asked of the zone above, where that is here as well.
    pub(crate) fn of(&self, name: &Sought, parent: bool) -> Option<&Zone> {
        let longest = self.most_labels.min(name.labels());
        let mut own = None;
        for labels in (0..=longest).rev() {
            if let Some(zone) = self.by_apex.get(name.suffix(labels)) {
                if !(parent && labels == name.labels() && labels > 0) {
                    return Some(zone);
                }
                own = Some(zone);
            }
        }
        own
    }
}
