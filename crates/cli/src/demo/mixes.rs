//! The mixes of requests, and how each is measured.

use crate::failure::Failure;
use curtail_policy::Nanos;
use kv_app::load;

/// A mix and how it is measured.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    pub(super) kv: load::Mix,
    /// Concord §5.3.
    pub(super) quantum: Nanos,
    /// Of a run. Where half of the requests take a millisecond, it takes longer until there are
    /// enough; where there are writes, they make the store grow, and SCANs with it.
    pub(super) duration_ns: u64,
}

const ALL: [Mix; 2] = [
    Mix { kv: load::Mix::GET_SCAN_50, quantum: Nanos(2_000), duration_ns: 3_000_000_000 },
    Mix { kv: load::Mix::ZIPPYDB, quantum: Nanos(5_000), duration_ns: 1_000_000_000 },
];

/// The mixes of these names.
pub(super) fn named(names: &[String]) -> Result<Vec<Mix>, Failure> {
    let one = |name: &String| {
        let found = ALL.into_iter().find(|mix| mix.kv.name == name);
        found.ok_or_else(|| {
            let known = ALL.map(|mix| mix.kv.name).join(", ");
            Failure::usage(format!("--mix: there is no `{name}`, only {known}"))
        })
    };
    names.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_found_by_name() {
        let mixes = named(&["zippydb".to_owned(), "get-scan-50".to_owned()]).unwrap();
        let names: Vec<_> = mixes.iter().map(|mix| mix.kv.name).collect();
        assert_eq!(names, ["zippydb", "get-scan-50"]);
        assert!(
            matches!(named(&["usr".to_owned()]), Err(Failure::Usage(said)) if said.contains("`usr`"))
        );
    }
}
