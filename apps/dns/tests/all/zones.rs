//! Zone files that are none, and which of several zones answers.

use crate::shown::{answer, query, shown};
use dns::{LoadError, Zone, Zones};
use domain::base::iana::Rtype;
use std::path::Path;

const HEAD: &str = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\n";

fn with(line: &str) -> Result<Zone, LoadError> {
    Zone::parse("example.org", &format!("{HEAD}{line}\n"))
}

#[test]
fn what_can_not_be_is_said() {
    for (line, said) in [
        ("a 60 A 1.2.3", "zone: 4:1: expected IPv4 address"),
        ("a 60 A", "zone: "),
        ("a 60 CH TXT x", "zone: "),
        ("a.example.net. 60 A 1.2.3.4", "a.example.net is not in the zone"),
        ("a 60 CNAME b\na 60 A 1.2.3.4", "a.example.org has a CNAME record and others"),
        ("a 60 CNAME b\na 60 CNAME c", "a.example.org has a CNAME record and others"),
        ("@ 60 CNAME b", "example.org has a CNAME record and others"),
        ("*.a 60 NS b", "*.a.example.org: a wildcard can't delegate"),
        ("a 60 SOA ns host 1 2 3 4 5", "a zone has one SOA record"),
        ("@ 60 SOA ns host 2 2 3 4 5", "a zone has one SOA record"),
        ("a 60 DNAME b", "a.example.org: DNAME is not served"),
        ("$INCLUDE zone", "zone: includes are too deep"),
    ] {
        let error = with(line).expect_err(line).to_string();
        assert!(error.starts_with(said), "{line}: {error}");
    }
    assert!(matches!(Zone::parse("example.org", ""), Err(LoadError::Soa)));
    assert!(matches!(Zone::parse("example.org", "@ 60 SOA a b 1 2 3 4 5"), Err(LoadError::Ns)));
    assert!(matches!(Zone::parse("a..b", HEAD), Err(LoadError::Name(_))));
    let error = Zone::load("example.org", Path::new("/nothing/here")).unwrap_err().to_string();
    assert!(error.starts_with("/nothing/here: "), "{error}");
}

#[test]
fn files_that_include_each_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("self.zone");
    std::fs::write(&file, format!("{HEAD}$INCLUDE self.zone sub\n")).unwrap();
    assert!(matches!(Zone::load("example.org", &file), Err(LoadError::Depth(_))));
    let error = with("$INCLUDE other").unwrap_err();
    assert!(matches!(error, LoadError::Depth(_)), "a text includes nothing: {error}");
}

#[test]
fn the_longest_zone_answers_and_the_one_above_has_the_key() {
    let mut zones = Zones::default();
    let above = "child 60 NS ns.child\nns.child 60 A 192.0.2.1\nchild 60 DS 1 5 1 00";
    zones.add(with(above).unwrap()).unwrap();
    let child = format!("{HEAD}ns 60 A 192.0.2.2\n");
    zones.add(Zone::parse("Child.example.org", &child).unwrap()).unwrap();
    let again = Zone::parse("child.EXAMPLE.org", &child).unwrap();
    assert!(zones.add(again).is_err());
    let of = |name, rtype| shown(&answer(&zones, &query(name, rtype, None)));
    assert_eq!(
        of("ns.child.example.org", Rtype::A),
        "NOERROR aa\nan ns.child.example.org. 60 A 192.0.2.2\n"
    );
    assert_eq!(
        of("child.example.org", Rtype::DS),
        "NOERROR aa\nan child.example.org. 60 DS 1 5 1 00\n"
    );
    assert!(of("example.org", Rtype::DS).starts_with("NOERROR aa\nau example.org. 5 SOA"));
    assert_eq!(of("org", Rtype::NS), "REFUSED\n");
}

#[test]
fn records_of_a_set_have_the_shortest_time() {
    let mut zones = Zones::default();
    zones.add(with("a 90 A 192.0.2.1\na 30 A 192.0.2.2\na 60 A 192.0.2.1").unwrap()).unwrap();
    assert_eq!(
        shown(&answer(&zones, &query("a.example.org", Rtype::A, None))),
        "NOERROR aa\nan a.example.org. 30 A 192.0.2.1\nan a.example.org. 30 A 192.0.2.2\n"
    );
}
