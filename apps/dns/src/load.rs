//! Zone files (RFC 1035 §5), and what must hold of a zone.

use crate::zone::{RecordSet, Zone};
use bytes::Bytes;
use domain::base::iana::{Class, Rtype};
use domain::base::name::FlattenInto;
use domain::base::{Name, Record, Ttl};
use domain::rdata::ZoneRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files that include files that include files: at most so deep.
const MOST_DEPTH: usize = 16;

/// Types whose answers need more than looking up, which is not done here.
const NOT_SERVED: &[Rtype] = &[
    Rtype::DNAME,
    Rtype::RRSIG,
    Rtype::NSEC,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype::DNSKEY,
    Rtype::CDNSKEY,
    Rtype::CDS,
];

/// Why a zone was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No domain name.
    #[error("`{0}` is no domain name")]
    Name(String),
    /// A file can't be read.
    #[error("{}: {error}", file.display())]
    File {
        /// The file's path.
        file: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file is not what RFC 1035 §5 says.
    #[error("{}: {error}", file.display())]
    Syntax {
        /// The file's path.
        file: PathBuf,
        /// Line, column and what is wrong there.
        error: String,
    },
    /// Files include each other.
    #[error("{}: includes are too deep", .0.display())]
    Depth(PathBuf),
    /// A record's name is not in the zone.
    #[error("{0} is not in the zone")]
    Outside(String),
    /// A record of a type that is not served.
    #[error("{name}: {rtype} is not served")]
    NotServed {
        /// The record's name.
        name: String,
        /// The record's type.
        rtype: String,
    },
    /// The zone has no SOA record at its apex, or several.
    #[error("a zone has one SOA record, at its apex")]
    Soa,
    /// The zone has no NS record at its apex.
    #[error("a zone has NS records at its apex")]
    Ns,
    /// A CNAME record has others beside it.
    #[error("{0} has a CNAME record and others (RFC 1034 §3.6.2)")]
    Cname(String),
    /// A delegation by a wildcard.
    #[error("{0}: a wildcard can't delegate (RFC 4592 §4.2)")]
    WildcardCut(String),
}

impl Zone {
    /// The zone `apex`, as `file` says.
    ///
    /// # Errors
    /// The file can't be read, is no zone file, or says what can't be.
    pub fn load(apex: &str, file: &Path) -> Result<Self, LoadError> {
        let mut zone = Self::empty(apex)?;
        let origin = zone.apex().name.clone();
        include(&mut zone, file, origin, 0)?;
        zone.checked()
    }

    /// The zone `apex`, as `text` says; it includes nothing.
    ///
    /// # Errors
    /// The text is no zone file, or says what can't be.
    pub fn parse(apex: &str, text: &str) -> Result<Self, LoadError> {
        let mut zone = Self::empty(apex)?;
        let origin = zone.apex().name.clone();
        read(&mut zone, Path::new("zone"), text.as_bytes(), origin, MOST_DEPTH)?;
        zone.checked()
    }

    fn empty(apex: &str) -> Result<Self, LoadError> {
        let name = Name::bytes_from_str(apex).map_err(|_| LoadError::Name(apex.to_owned()))?;
        Ok(Self::new(name))
    }

    fn checked(mut self) -> Result<Self, LoadError> {
        let apex = self.apex();
        let soa = apex.set(Rtype::SOA).filter(|set| set.data.len() == 1).ok_or(LoadError::Soa)?;
        let [ZoneRecordData::Soa(data)] = &soa.data[..] else { return Err(LoadError::Soa) };
        let negative = RecordSet {
            rtype: Rtype::SOA,
            ttl: soa.ttl.min(data.minimum()),
            data: soa.data.clone(),
        };
        apex.set(Rtype::NS).ok_or(LoadError::Ns)?;
        for node in self.nodes() {
            let said = || node.name.to_string();
            if let Some(cname) = node.set(Rtype::CNAME)
                && (node.sets.len() > 1 || cname.data.len() > 1)
            {
                return Err(LoadError::Cname(said()));
            }
            if node.name.first().is_wildcard() && node.set(Rtype::NS).is_some() {
                return Err(LoadError::WildcardCut(said()));
            }
            if node.set(Rtype::SOA).is_some() && node.name != self.apex().name {
                return Err(LoadError::Soa);
            }
        }
        self.negative = negative;
        Ok(self)
    }

    fn add(&mut self, record: Record<Name<Bytes>, crate::zone::Data>) -> Result<(), LoadError> {
        let (name, rtype) = (record.owner(), record.rtype());
        if !self.contains(name) {
            return Err(LoadError::Outside(name.to_string()));
        }
        if NOT_SERVED.contains(&rtype) {
            return Err(LoadError::NotServed { name: name.to_string(), rtype: rtype.to_string() });
        }
        let (ttl, node) = (record.ttl(), self.node_mut(record.owner()));
        let data = record.into_data();
        match node.sets.iter_mut().find(|set| set.rtype == rtype) {
            // Records of a set have one TTL (RFC 2181 §5.2): the shortest is never wrong.
            Some(set) => {
                set.ttl = set.ttl.min(ttl);
                if !set.data.contains(&data) {
                    set.data.push(data);
                }
            }
            None => node.sets.push(RecordSet { rtype, ttl, data: vec![data] }),
        }
        Ok(())
    }
}

fn include(
    zone: &mut Zone,
    file: &Path,
    origin: Name<Bytes>,
    depth: usize,
) -> Result<(), LoadError> {
    let text = fs::read(file).map_err(|error| LoadError::File { file: file.to_owned(), error })?;
    read(zone, file, &text, origin, depth)
}

fn read(
    zone: &mut Zone,
    file: &Path,
    text: &[u8],
    origin: Name<Bytes>,
    depth: usize,
) -> Result<(), LoadError> {
    let syntax = |error: String| LoadError::Syntax { file: file.to_owned(), error };
    let mut entries = Zonefile::from(text);
    // The parser wants the last line to end as the others do.
    entries.extend_from_slice(b"\n");
    entries.set_origin(origin.clone());
    entries.set_default_class(Class::IN);
    while let Some(entry) = entries.next_entry().map_err(|error| syntax(error.to_string()))? {
        match entry {
            Entry::Record(record) if record.class() != Class::IN => {
                return Err(syntax(format!("{}: class {}", record.owner(), record.class())));
            }
            Entry::Record(record) => {
                let (owner, ttl) = (record.owner().clone(), Ttl::from_secs(record.ttl().as_secs()));
                let owner =
                    owner.try_flatten_into().map_err(|_| syntax("a name is too long".into()))?;
                let data: crate::zone::Data = record
                    .into_data()
                    .try_flatten_into()
                    .map_err(|_| syntax("a name is too long".into()))?;
                zone.add(Record::new(owner, Class::IN, ttl, data))?;
            }
            Entry::Include { .. } if depth >= MOST_DEPTH => {
                return Err(LoadError::Depth(file.to_owned()));
            }
            Entry::Include { path, origin: other } => {
                let path = file.parent().unwrap_or(Path::new("")).join(&*path);
                include(zone, &path, other.unwrap_or_else(|| origin.clone()), depth + 1)?;
            }
        }
    }
    Ok(())
}
