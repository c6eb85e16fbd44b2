//! Compiles LevelDB and the shim over it (feature `leveldb`), with the compiler, flags and archiver
//! that the environment names for the target: that is how an instrumenting build gets at them.
//!
//! The source is looked for in `CURTAIL_LEVELDB_DIR`, then as `vendor/leveldb-1.23` in the target
//! directory and those above it, and fetched by `fetch-leveldb.sh` where it is in neither.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// LevelDB's library without its tests and its C binding, for POSIX.
const SOURCES: &[&str] = &[
    "db/builder.cc",
    "db/db_impl.cc",
    "db/db_iter.cc",
    "db/dbformat.cc",
    "db/dumpfile.cc",
    "db/filename.cc",
    "db/log_reader.cc",
    "db/log_writer.cc",
    "db/memtable.cc",
    "db/repair.cc",
    "db/table_cache.cc",
    "db/version_edit.cc",
    "db/version_set.cc",
    "db/write_batch.cc",
    "helpers/memenv/memenv.cc",
    "table/block.cc",
    "table/block_builder.cc",
    "table/filter_block.cc",
    "table/format.cc",
    "table/iterator.cc",
    "table/merger.cc",
    "table/table.cc",
    "table/table_builder.cc",
    "table/two_level_iterator.cc",
    "util/arena.cc",
    "util/bloom.cc",
    "util/cache.cc",
    "util/coding.cc",
    "util/comparator.cc",
    "util/crc32c.cc",
    "util/env.cc",
    "util/env_posix.cc",
    "util/filter_policy.cc",
    "util/hash.cc",
    "util/histogram.cc",
    "util/logging.cc",
    "util/options.cc",
    "util/status.cc",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_LEVELDB").is_none() {
        return;
    }
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=fetch-leveldb.sh");
    println!("cargo::rerun-if-env-changed=CURTAIL_LEVELDB_DIR");
    match leveldb_source() {
        Ok(source) => compile(&source),
        Err(why) => {
            println!("cargo::error={why}");
            std::process::exit(1);
        }
    }
}

fn leveldb_source() -> Result<PathBuf, String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run by Cargo")?);
    if env::var_os("CURTAIL_LEVELDB_DIR").is_none() {
        let found = out.ancestors().map(|dir| dir.join("vendor/leveldb-1.23"));
        if let Some(found) = found.into_iter().find(|dir| dir.join("db/db_impl.cc").is_file()) {
            println!("cargo::rerun-if-changed={}", found.display());
            return Ok(found);
        }
    }
    fetch(&target_dir(&out))
}

/// The outermost directory above `out` that Cargo has marked as a target directory: an
/// instrumenting build may use one inside the ordinary one, and both then share the source.
fn target_dir(out: &Path) -> PathBuf {
    let marked = out.ancestors().filter(|dir| dir.join("CACHEDIR.TAG").is_file());
    marked.last().unwrap_or(out).to_path_buf()
}

fn fetch(target: &Path) -> Result<PathBuf, String> {
    let output = Command::new("./fetch-leveldb.sh")
        .arg(target)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("apps/kv/fetch-leveldb.sh cannot be run: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.lines().last().unwrap_or("fetch-leveldb: failed silently").to_owned());
    }
    let path = String::from_utf8_lossy(&output.stdout);
    let path = PathBuf::from(path.trim_end());
    println!("cargo::rerun-if-changed={}", path.display());
    Ok(path)
}

fn compile(source: &Path) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        // A debug build of the program measures nothing, but its tests still go through 15,000 keys
        // many times: the engine is optimised in every profile.
        .opt_level(2)
        .define("NDEBUG", None)
        .define("LEVELDB_PLATFORM_POSIX", "1")
        // What CMake's port_config.h would say on Linux, without optional libraries.
        .define("LEVELDB_HAS_PORT_CONFIG_H", "0")
        .define("HAVE_FDATASYNC", "1")
        .define("HAVE_FULLFSYNC", "0")
        .define("HAVE_O_CLOEXEC", "1")
        .define("HAVE_CRC32C", "0")
        .define("HAVE_SNAPPY", "0")
        .include(source)
        .include(source.join("include"))
        // The code is LevelDB's; its warnings are not ours to mend.
        .warnings(false)
        .files(SOURCES.iter().map(|file| source.join(file)))
        .file("shim/kv_shim.cc");
    build.compile("curtail_leveldb");
}
