//! The start of DPDK's base, which it calls the environment abstraction layer, once in a process. Cold
//! path.

use super::port::{reason, start};
use crate::error::DpdkError;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// Options that take a value, in the same word after `=` or in the next one.
const WITH_VALUE: [&str; 20] = [
    "-a",
    "-b",
    "-d",
    "-m",
    "-n",
    "-r",
    "--allow",
    "--base-virtaddr",
    "--block",
    "--file-prefix",
    "--force-max-simd-bitwidth",
    "--huge-dir",
    "--iova-mode",
    "--log-level",
    "--socket-limit",
    "--socket-mem",
    "--vdev",
    "--vfio-intr",
    "--vfio-vf-token",
    "--syslog",
];
/// Options that take none.
const ALONE: [&str; 7] = [
    "--legacy-mem",
    "--match-allocations",
    "--no-hpet",
    "--no-huge",
    "--no-pci",
    "--single-file-segments",
    "--vmware-tsc-map",
];
/// Those of both that a message names.
const KNOWN: &str = "--no-huge, -m MB, --socket-mem, --huge-dir, --iova-mode, --file-prefix, -a, -b, \
     -d, --vdev, --vfio-intr, --log-level and others about memory and devices";

/// What DPDK runs with, or why it does not.
static STARTED: Mutex<Option<Result<Vec<String>, DpdkError>>> = Mutex::new(None);

/// Starts it, unless it runs with these words.
pub(super) fn ensure(words: &[String], device: &str) -> Result<(), DpdkError> {
    check(words)?;
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*started {
        Some(Ok(before)) if words.is_empty() || before == words => Ok(()),
        Some(Ok(before)) => Err(DpdkError::Started(before.join(" "))),
        // A second try is not possible.
        Some(Err(why)) => Err(why.clone()),
        None => {
            let result = run(words, device).map(|()| words.to_vec());
            started.insert(result).as_ref().map(|_| ()).map_err(Clone::clone)
        }
    }
}

/// Those that would end the process, take over other cores or make it another's secondary are refused,
/// as are those that DPDK does not know: it would print its manual.
fn check(words: &[String]) -> Result<(), DpdkError> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let refused = || DpdkError::Word { word: word.clone(), known: KNOWN };
        let (name, value) = word.split_once('=').map_or((&**word, None), |(a, b)| (a, Some(b)));
        if word.contains('\0') {
            return Err(refused());
        }
        if WITH_VALUE.contains(&name) {
            let is_short = !name.starts_with("--");
            let value =
                if is_short || value.is_none() { words.next().map(|it| &**it) } else { value };
            // DPDK takes anything for a number.
            let is_number = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
            let is_value = |value: &str| {
                !value.is_empty()
                    && !value.contains('\0')
                    && (!matches!(name, "-m" | "-n" | "-r") || is_number(value))
            };
            // A short one has its value in the next word.
            if !value.is_some_and(is_value) || (is_short && word.contains('=')) {
                return Err(refused());
            }
        } else if !ALONE.contains(&name) || value.is_some() {
            return Err(refused());
        }
    }
    Ok(())
}

/// Our words: nothing is left in the file system, no thread of its own listens or computes, and of
/// the machine's NICs only the one that is wanted is touched.
fn run(words: &[String], device: &str) -> Result<(), DpdkError> {
    let cpus = format!("--lcores=0@({})", allowed_cpus());
    // DPDK does not take it beside the two.
    let is_legacy = words.iter().any(|word| matches!(&**word, "--no-huge" | "--legacy-mem"));
    let no_files = if is_legacy { "--no-shconf" } else { "--in-memory" };
    let mut all: Vec<_> =
        ["curtail", no_files, "--no-telemetry", "--log-level=4", &cpus].map(str::to_owned).into();
    let names = ["-a", "-b", "--allow", "--block", "--no-pci"];
    let is_chosen = |word: &String| names.contains(&word.split('=').next().unwrap_or_default());
    if !words.iter().any(is_chosen) {
        match is_pci(device) {
            true => all.extend(["-a".to_owned(), device.to_owned()]),
            false => all.push("--no-pci".to_owned()),
        }
    }
    all.extend_from_slice(words);
    let all: Result<Vec<_>, _> = all.into_iter().map(CString::new).collect();
    let all = all.map_err(|_| DpdkError::Name)?;
    // DPDK binds the thread that starts it to its core: one that ends with the call.
    let starter = std::thread::Builder::new().name("dpdk-start".to_owned());
    let started = starter.spawn(move || start(all));
    let ended = started.map_err(|error| DpdkError::Start(error.to_string()))?.join();
    match ended {
        Ok(0) => Ok(()),
        Ok(error) => Err(DpdkError::Start(reason(error))),
        Err(_) => Err(DpdkError::Start("its thread panicked".to_owned())),
    }
}

/// `0000:03:00.0`, or the same without the domain.
fn is_pci(device: &str) -> bool {
    let digits = device.bytes().filter(|byte| !b":.".contains(byte));
    device.contains(':') && device.contains('.') && digits.clone().all(|it| it.is_ascii_hexdigit())
}

/// The CPUs that this process may use, as a list of numbers.
fn allowed_cpus() -> String {
    // SAFETY: a C struct of plain numbers, for which all-zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as long as is said, and outlives the call.
    let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    let most = if answer == 0 { libc::CPU_SETSIZE as usize } else { 0 };
    // SAFETY: `most` is no more than a set has.
    let cpus = (0..most).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
    let cpus: Vec<_> = cpus.map(|cpu| cpu.to_string()).collect();
    if cpus.is_empty() { "0".to_owned() } else { cpus.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> Result<(), DpdkError> {
        check(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_that_a_server_does_not_take_are_refused() {
        for good in
            ["--no-huge", "--no-huge -m 64", "--vdev=net_null0", "--vdev net_null0 --no-pci"]
        {
            assert_eq!(said(good), Ok(()), "{good}");
        }
        for bad in
            ["--help", "-h", "-l 0-3", "--lcores=0", "--proc-type=secondary", "--no-hug", "x"]
        {
            assert!(matches!(said(bad), Err(DpdkError::Word { .. })), "{bad}");
        }
        for bad in
            ["-m", "-m=4 4", "-m 1g", "--vdev=", "--vdev", "--no-huge=1", "--", "", "--no-huge\0"]
        {
            assert!(matches!(said(bad), Err(DpdkError::Word { .. })), "{bad}");
        }
    }

    #[test]
    fn nics_have_addresses_of_pci() {
        assert!(is_pci("0000:03:00.0") && is_pci("03:00.1"));
        assert!(!is_pci("net_af_packet0") && !is_pci("net_ring.0") && !is_pci("fa:ce"));
    }
}
