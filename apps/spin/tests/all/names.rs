//! The private names of std and parking_lot that the compiler pass goes by
//! (`crates/fiber/native/names.inc`), looked for in this program, which uses all of them: another
//! compiler or another parking_lot may have moved them.

use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;
use std::io::{stdin, stdout};
use std::sync::{Mutex, Once, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{
    MutexGuard, RwLockReadGuard as Read, RwLockUpgradableReadGuard as Upgradable,
    RwLockWriteGuard as Write,
};

/// Always inlined, so that a program has no function of that name. The others of their types are
/// there.
const INLINED: [&str; 4] = [
    "std::sys::sync::rwlock::futex::RwLock::try_read",
    "std::sys::sync::rwlock::futex::RwLock::try_write",
    "parking_lot::raw_rwlock::RawRwLock::try_lock_shared_fast",
    "parking_lot::raw_rwlock::RawRwLock::try_lock_upgradable_fast",
];

const SOON: Duration = Duration::from_micros(1);

fn use_std() {
    let mutex = black_box(Mutex::new(0));
    drop(mutex.lock());
    drop(mutex.try_lock());
    let lock = black_box(RwLock::new(0));
    drop(lock.read());
    drop(lock.try_read());
    drop(lock.write());
    drop(lock.try_write());
    Once::new().call_once(|| ());
    drop((stdin().lock(), stdout().lock()));
    let (sender, receiver) = mpsc::channel();
    let other = thread::spawn(move || sender.send(1));
    assert_eq!(receiver.recv(), Ok(1));
    assert!(other.join().is_ok());
    assert!(black_box(HashMap::<u8, u8>::new()).is_empty());
    thread_local!(static WORD: Vec<u8> = const { Vec::new() });
    assert_eq!(WORD.with(Vec::len), 0);
}

fn use_parking_lot() {
    let mutex = black_box(parking_lot::Mutex::new(0));
    drop(mutex.lock());
    MutexGuard::unlock_fair(mutex.lock());
    drop(mutex.try_lock());
    drop(mutex.try_lock_for(SOON));
    drop(mutex.try_lock_until(Instant::now()));
    let lock = black_box(parking_lot::RwLock::new(0));
    drop(lock.write());
    Write::unlock_fair(lock.write());
    drop(lock.try_write());
    drop(lock.try_write_for(SOON));
    drop(lock.try_write_until(Instant::now()));
    drop(lock.read());
    Read::unlock_fair(lock.read());
    drop(lock.try_read());
    drop(lock.try_read_for(SOON));
    drop(lock.try_read_until(Instant::now()));
    drop(lock.read_recursive());
    drop(lock.try_read_recursive());
    drop(lock.try_read_recursive_for(SOON));
    drop(lock.try_read_recursive_until(Instant::now()));
    drop(lock.upgradable_read());
    Upgradable::unlock_fair(lock.upgradable_read());
    drop(lock.try_upgradable_read());
    drop(lock.try_upgradable_read_for(SOON));
    drop(lock.try_upgradable_read_until(Instant::now()));
    parking_lot::Once::new().call_once(|| ());
}

/// The readable names of the functions and variables in this program.
fn names() -> BTreeSet<String> {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.".contains(byte);
    program
        .split(|byte| !word(byte))
        .filter(|word| word.starts_with(b"_R") || word.starts_with(b"_ZN"))
        .filter_map(|word| rustc_demangle::try_demangle(std::str::from_utf8(word).ok()?).ok())
        .map(|name| format!("{name:#}"))
        .collect()
}

/// `type::method`, as the pass reads it (`pass/src/guard/locknames.cpp`): without generic arguments and
/// traits.
fn method(name: &str) -> Option<String> {
    let (of, method) = name.rsplit_once("::")?;
    let of = of.strip_prefix('<').unwrap_or(of);
    let of = of.split(['<', '>', ' ']).next()?;
    Some(format!("{}::{method}", of.strip_suffix("::").unwrap_or(of)))
}

/// Does a glob, in which `*` stands for anything, match?
fn matches(glob: &str, name: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == name };
    let Some(name) = name.strip_prefix(first) else { return false };
    (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "an optimised program has not all names")]
fn the_pass_knows_them() {
    use_std();
    use_parking_lot();
    let names = names();
    let methods: BTreeSet<String> = names.iter().filter_map(|name| method(name)).collect();
    let mut gone = Vec::new();
    for line in curtail_fiber::NAMES.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["lock", of, _, ref known @ ..] => {
                let full = known.iter().map(|name| format!("{of}::{name}"));
                let missing =
                    |name: &String| !methods.contains(name) && !INLINED.contains(&name.as_str());
                gone.extend(full.filter(missing));
            }
            [
                "holds-thread-local" | "indifferent" | "thread-id" | "thread-data",
                ref globs @ ..,
            ] => {
                let found = |glob: &&str| names.iter().any(|name| matches(glob, name));
                if !globs.iter().any(found) {
                    gone.extend(globs.iter().map(|&glob| glob.to_owned()));
                }
            }
            _ => {}
        }
    }
    let like = |name: &String| {
        let last = name.trim_end_matches(['*', ':']).rsplit("::").next().unwrap_or(name).to_owned();
        let ends = format!("::{last}");
        methods.iter().filter(|other| other.ends_with(&ends)).take(5).cloned().collect::<Vec<_>>()
    };
    let told: Vec<String> =
        gone.iter().map(|name| format!("{name}\n    now perhaps: {:?}", like(name))).collect();
    assert!(
        gone.is_empty(),
        "The pass knows names of std and parking_lot that this compiler makes no functions of. A lock that is \
         taken under another name may be held across a yield, and a thread-local variable under another name \
         keeps safepoints away. Put the new names into crates/fiber/native/names.inc:\n  {}",
        told.join("\n  ")
    );
}
