//! The crates, those that are quickly built first: the group whose program has the check, and what
//! it checks.

/// One crate.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it is called here, and on the command line.
    pub name: &'static str,
    /// The package, as the registry has it.
    pub package: &'static str,
    /// The program `sweep-GROUP` has the check.
    pub group: &'static str,
    /// One short sentence.
    pub what: &'static str,
}

const fn entry(group: &'static str, name: &'static str, what: &'static str) -> Entry {
    Entry { name, package: name, group, what }
}

const fn of(
    group: &'static str,
    (name, package): (&'static str, &'static str),
    what: &'static str,
) -> Entry {
    Entry { name, package, group, what }
}

/// All of them.
pub const ALL: &[Entry] = &[
    entry("data", "bytes", "Buffers that are split, shared and joined again have the same bytes."),
    entry("data", "smallvec", "Vectors that spill, drain and shrink keep their elements."),
    entry("data", "indexmap", "A map keeps the order of insertion through removals and sorting."),
    entry("data", "hashbrown", "A map of tables that grow and shrink has the right sums."),
    entry("data", "slab", "Keys are used again, and lead to what was put there."),
    entry("data", "bumpalo", "What an arena holds stays as it was written."),
    entry("data", "itertools", "Groups, products, merges and permutations are the right ones."),
    entry("data", "ryu", "Floating-point numbers printed and read again are the same."),
    entry("data", "chrono", "Dates, in local time too, printed and read again are the same."),
    entry("data", "sha2", "Hashes are those of the standard's test vectors."),
    entry("data", "blake3", "Hashes, in one go and in pieces, are those of the test vectors."),
    entry("data", "flate2", "What was packed at each level is unpacked as it was."),
    entry("data", "regex", "Captures, replacements and sets of patterns are the right ones."),
    entry("data", "serde_json", "Typed and untyped values are written and read again the same."),
    entry("data", "rand", "A token never comes twice; a seeded generator gives its sequence."),
    entry("data", "uuid", "An id never comes twice; those of version 7 are in order."),
    entry("data", "ulid", "An id never comes twice; a thread's generator is monotonic."),
    entry(
        "locks",
        "crossbeam",
        "Channels and queues lose nothing; a skip list has what was put in.",
    ),
    entry(
        "locks",
        "parking_lot",
        "Counts under four kinds of lock are exact; a re-entrant one is its owner's.",
    ),
    entry("locks", "dashmap", "Counts through guards held over computing are exact."),
    entry("locks", "moka", "A value is made once for each key, and is the key's own."),
    entry(
        "locks",
        "scoped-tls",
        "A scoped value is the thread's own, through computing and nesting.",
    ),
    entry("locks", "thread_local", "A cell is the thread's own, and never taken twice."),
    entry("locks", "once_cell", "A cell is filled once, whoever races for it."),
    entry("locks", "arc-swap", "What is loaded is whole; read-copy-updates lose no count."),
    entry("locks", "flume", "Bounded channels and selectors lose nothing and repeat nothing."),
    entry("locks", "stacker", "Recursion on stacks that grow comes to the right sum."),
    entry("locks", "signal-hook", "Each signal that is raised is seen once."),
    entry("tasks", "log", "A line is logged whole, once, with its thread's own values."),
    of(
        "tasks",
        ("env_logger", "env_logger"),
        "Lines that are filtered and formatted come out whole and once.",
    ),
    entry(
        "tasks",
        "tracing",
        "An event's span is its thread's own, through computing and nesting.",
    ),
    of(
        "tasks",
        ("tracing-subscriber", "tracing-subscriber"),
        "Formatted lines carry the spans that their thread is in.",
    ),
    entry("tasks", "futures", "Executors, streams and channels give the right sums."),
    entry("tasks", "rayon", "Sums, sorting, joins and scopes give the right results."),
    entry("tasks", "tokio", "block_on, tasks, channels, locks and timers of a runtime are right."),
    entry("stores", "rusqlite", "Sums, a function of ours and a shared count are right."),
    entry("stores", "redb", "Transactions are whole, and a count under them is exact."),
    entry("stores", "image", "A PNG is decoded as it was encoded; a JPEG nearly so."),
    entry("stores", "zstd", "What was packed, in one go or as a stream, is unpacked as it was."),
    entry("scripts", "minijinja", "A template with loops, macros and filters is rendered right."),
    entry("scripts", "tera", "A template with loops, blocks and filters is rendered right."),
    entry(
        "scripts",
        "rhai",
        "A script with closures, maps and a function of ours gives its result.",
    ),
    entry(
        "scripts",
        "wasmi",
        "A module computes, calls us back, runs out of fuel and of stack, and traps.",
    ),
    entry("scripts", "rquickjs", "A script with generators, JSON and exceptions gives its result."),
    entry("scripts", "mlua", "A script with coroutines, errors and callbacks gives its result."),
    of(
        "tls",
        ("rustls/ring", "rustls"),
        "A handshake succeeds with both versions, and bytes come back.",
    ),
    entry(
        "tls",
        "reqwest",
        "Blocking requests to a server on this machine bring back what was sent.",
    ),
    of(
        "jemalloc",
        ("jemalloc", "tikv-jemallocator"),
        "As the global allocator: no block is given twice or lost.",
    ),
    entry("mimalloc", "mimalloc", "As the global allocator: no block is given twice or lost."),
    of(
        "awslc",
        ("rustls/aws-lc-rs", "rustls"),
        "A handshake succeeds with both versions, and bytes come back.",
    ),
    entry("boa", "boa_engine", "A script with closures, JSON and exceptions gives its result."),
    entry(
        "openssl",
        "openssl",
        "Hashes, ciphers and signatures are right; errors are the thread's own.",
    ),
    entry(
        "wasmtime",
        "wasmtime",
        "A module computes, calls us back, runs out of fuel and of stack, and traps.",
    ),
    entry("polars", "polars", "Filters, groups, joins and sorting of frames are right."),
];

/// The version of a package that this workspace builds.
#[must_use]
pub fn version(package: &str) -> Option<String> {
    version_in(include_str!("../Cargo.lock"), package)
}

fn version_in(lock: &str, package: &str) -> Option<String> {
    let quoted = |line: &str| line.split('"').nth(1).map(str::to_owned);
    let own = lock.split("[[package]]").find(|part| part.contains("name = \"curtail-sweep\""))?;
    // `NAME`, or `NAME VERSION` where there are several.
    let wanted = own.lines().filter_map(quoted).find_map(|entry| {
        let (name, version) = entry.split_once(' ').unwrap_or((&entry, ""));
        (name == package).then(|| version.to_owned())
    })?;
    if !wanted.is_empty() {
        return Some(wanted);
    }
    let name = format!("name = \"{package}\"");
    let part = lock.split("[[package]]").find(|part| part.lines().any(|line| line == name))?;
    part.lines().find(|line| line.starts_with("version = ")).and_then(quoted)
}

#[cfg(test)]
mod tests {
    use super::{ALL, version, version_in};
    use std::collections::BTreeSet;

    #[test]
    fn each_has_a_name_and_a_version() {
        let names: BTreeSet<_> = ALL.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), ALL.len());
        for entry in ALL {
            assert!(version(entry.package).is_some(), "{}", entry.package);
        }
    }

    #[test]
    fn of_several_versions_the_one_that_is_built_counts() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n\n\
                    [[package]]\nname = \"b\"\nversion = \"3.0.0\"\n\n\
                    [[package]]\nname = \"curtail-sweep\"\nversion = \"0.1.0\"\n\
                    dependencies = [\n \"a 2.0.0\",\n \"b\",\n]\n";
        assert_eq!(version_in(lock, "a").as_deref(), Some("2.0.0"));
        assert_eq!(version_in(lock, "b").as_deref(), Some("3.0.0"));
        assert_eq!(version_in(lock, "c"), None);
    }
}
