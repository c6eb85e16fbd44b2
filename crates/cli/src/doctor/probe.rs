//! The single findings. What a kernel or a container hides is reported as unknown, never guessed.

use super::Finding;
use curtail::SafepointKind;
use curtail::clock::Clock;
use std::fs;

/// Everything that is quick to find out.
pub(super) fn all() -> Vec<Finding> {
    vec![
        cores(),
        isolation(),
        quota(),
        tsc(),
        instrumentation(),
        thread_locals(),
        pthreads(),
        signals(),
        kernel(),
        stacks(),
        io_uring(),
        af_xdp(),
        dpdk(),
        huge_pages(),
        capabilities(),
        socket_buffers(),
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A field of `/proc/cpuinfo`, `/proc/meminfo` or a status file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn cores() -> Finding {
    let cores = curtail::allowed_cores();
    let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let list =
        if list.len() > 16 { format!("{} …", list[..16].join(",")) } else { list.join(",") };
    let here = format!("{} allowed ({list})", cores.len());
    let quota = curtail::cpu_quota().map_or(usize::MAX, curtail::Quota::threads);
    if quota < cores.len() {
        let used = format!("threads for {quota}, by the quota, on any of them");
        return Finding::poor("cores", here, used, "a cpuset instead of a quota");
    }
    match cores.len() {
        0 | 1 => Finding::poor(
            "cores",
            here,
            "dispatcher and workers share it: latencies of the kernel's scheduler",
            "two cores or more",
        ),
        n => {
            let used = format!("dispatcher on core {}, {} for workers", cores[0], n - 1);
            if n == 2 {
                let better = "four cores: then the dispatcher of a socket server polls, too";
                return Finding::poor("cores", here, used, better);
            }
            Finding::good("cores", here, used)
        }
    }
}

fn isolation() -> Finding {
    let isolated = read("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let tickless = read("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let tickless = tickless.trim_matches(|c| c == '(' || c == ')').replace("null", "");
    if isolated.is_empty() && tickless.is_empty() {
        return Finding::poor(
            "isolation",
            "no isolated cores",
            "threads are pinned; the kernel may still run others beside them",
            "boot with isolcpus=…, nohz_full=… for the workers' cores",
        );
    }
    let or_none = |list: &str| if list.is_empty() { "none".to_owned() } else { list.to_owned() };
    let here = format!("isolated {}, tickless {}", or_none(&isolated), or_none(&tickless));
    Finding::good("isolation", here, "name them with --cores")
}

fn quota() -> Finding {
    let Some(quota) = curtail::cpu_quota() else {
        return Finding::good("cpu quota", "none that is seen", "");
    };
    let here = format!(
        "{:.2} cores ({} us in every {} us, all threads together)",
        quota.cores(),
        quota.time_us,
        quota.period_us
    );
    if quota.threads() >= curtail::allowed_cores().len() {
        return Finding::good("cpu quota", here, "nothing: it allows all cores");
    }
    Finding::poor(
        "cpu quota",
        here,
        format!(
            "{} threads by default, dispatcher included; they float, and spin for 20us instead of 10ms",
            quota.threads()
        ),
        "no quota, or cpusets instead: the kernel stops all threads when it is used up",
    )
}

fn tsc() -> Finding {
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    let has = |flag: &str| flags.split_ascii_whitespace().any(|other| other == flag);
    let hz = Clock::get().hz;
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let here = format!(
        "{:.3} GHz, {}, kernel's clock: {}",
        hz / 1e9,
        if has("constant_tsc") && has("nonstop_tsc") { "invariant" } else { "not invariant" },
        source.as_deref().unwrap_or("unknown")
    );
    if has("constant_tsc") && has("nonstop_tsc") {
        return Finding::good("tsc", here, "the only clock on the hot path");
    }
    let used = "the only clock on the hot path; times may be off when the frequency changes";
    Finding::poor("tsc", here, used, "a processor (or virtual machine) with an invariant TSC")
}

fn thread_locals() -> Finding {
    let what = "thread-locals";
    match (curtail::own_thread_locals(), curtail::switches_by_instruction()) {
        (Ok(()), true) => Finding::good(what, "wrfsbase", "each thread and request has its own"),
        (Ok(()), false) => Finding::poor(
            what,
            "arch_prctl",
            "each thread and request has its own; a switch is a system call",
            "Linux 5.9 or later on a processor with FSGSBASE",
        ),
        (Err(reason), _) => Finding::poor(
            what,
            reason,
            "shared by all on a kthread: nothing is pre-empted",
            "glibc 2.34 or later, linked dynamically",
        ),
    }
}

/// What programs of pthreads can't have under `curtail run --pthreads`.
const NOT_UNDER_PTHREADS: &str = "for cancellation, robust or priority-lending mutexes, real-time \
                                  priorities or a thread's own processors: the kernel's threads";

fn pthreads() -> Finding {
    let what = "pthreads";
    let library = crate::cores::pthread_library();
    match (library, curtail::own_thread_locals()) {
        (Ok(_), Ok(())) => Finding {
            better: NOT_UNDER_PTHREADS.to_owned(),
            ..Finding::good(what, "libcurtail_pthread.so", "curtail run --pthreads")
        },
        (Err(_), _) => Finding::poor(
            what,
            "no libcurtail_pthread.so",
            "no curtail run --pthreads",
            "./x build",
        ),
        (_, Err(reason)) => Finding::poor(
            what,
            reason,
            "no curtail run --pthreads",
            "glibc 2.34 or later, linked dynamically",
        ),
    }
}

fn instrumentation() -> Finding {
    match curtail::safepoint_kind() {
        SafepointKind::Clock => {
            Finding::good("safepoints", "clock", "pre-emption: never, flag, clock")
        }
        SafepointKind::Flag => Finding::poor(
            "safepoints",
            "flag",
            "pre-emption: never, flag",
            "cargo curtail build --safepoint=clock: serves both",
        ),
        SafepointKind::None => Finding::poor(
            "safepoints",
            "this program is not instrumented",
            "no pre-emption but by signal: requests run to completion",
            "cargo curtail build --release",
        ),
    }
}

fn signals() -> Finding {
    match curtail::signals() {
        Ok(found) => Finding::good(
            "signals",
            format!("{} functions of the application, {} others", found.functions, found.others),
            "pre-emption without safepoints, where asked for: --preempt signal",
        ),
        Err(reason) => Finding::poor(
            "signals",
            reason,
            "--preempt signal is refused",
            "a program with its symbols, and the system's allocator",
        ),
    }
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let virtual_machine = field("/proc/cpuinfo", "flags")
        .is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    let here = format!(
        "Linux {release}, {}",
        if virtual_machine { "virtual machine" } else { "no hypervisor seen" }
    );
    if virtual_machine {
        let used = "gaps that the hypervisor makes are counted";
        return Finding::poor("kernel", here, used, "bare metal, for figures below 10us");
    }
    Finding::good("kernel", here, "")
}

fn stacks() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let maps = read("/proc/sys/vm/max_map_count").and_then(|text| text.parse::<u64>().ok());
    // MADV_GUARD_INSTALL is in Linux since 6.13.
    if version >= (6, 13) {
        let used = "a slab of guarded stacks is one mapping: as many as memory holds";
        return Finding::good("stacks", "guard pages by madvise", used);
    }
    let maps = maps.unwrap_or(65_530);
    Finding::poor(
        "stacks",
        format!("no guard pages by madvise, vm.max_map_count = {maps}"),
        format!("guard pages by mprotect: about {} stacks", maps / 2),
        "Linux 6.13 or later, or a higher vm.max_map_count",
    )
}

fn io_uring() -> Finding {
    const USED: &str = "files of threads; their streams where asked for: CURTAIL_IO=uring";
    match curtail::Io::check() {
        Ok(()) => Finding::good("io_uring", "available", USED),
        Err(error) => {
            let disabled = read("/proc/sys/kernel/io_uring_disabled");
            let why = match disabled.as_deref() {
                Some("1") => " (kernel.io_uring_disabled = 1)",
                Some("2") => " (kernel.io_uring_disabled = 2)",
                _ => "",
            };
            let used = "streams of threads by epoll, their files by ordinary threads";
            let better =
                "for quicker files: Linux 5.19 or later, and a sandbox that allows io_uring";
            Finding::poor("io_uring", format!("not available: {error}{why}"), used, better)
        }
    }
}

fn af_xdp() -> Finding {
    const NEEDED: [&str; 3] = ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"];
    let Some(why) = curtail_net::packet::why_not() else {
        let used = "where asked for: --listen xdp://IFACE/IP:PORT";
        return Finding::good("af_xdp", "available", used);
    };
    let held = held_capabilities();
    let lacks: Vec<_> = NEEDED.into_iter().filter(|name| !held.contains(name)).collect();
    let better = match lacks.is_empty() {
        true => "for xdp://: what is said here".to_owned(),
        false => format!("for xdp://: {}", lacks.join(", ")),
    };
    let used = "not needed: sockets of the kernel";
    Finding { better, ..Finding::good("af_xdp", why.to_string(), used) }
}

fn dpdk() -> Finding {
    let Some(version) = curtail_net::packet::dpdk_version() else {
        let better = "for dpdk://: a build with --features dpdk, and Debian's dpdk-dev".to_owned();
        let finding =
            Finding::good("dpdk", "not in this build", "not needed: sockets of the kernel");
        return Finding { better, ..finding };
    };
    let used = "where asked for: --listen dpdk://DEVICE/IP:PORT";
    let finding = Finding::good("dpdk", version, used);
    match field("/proc/meminfo", "HugePages_Total").as_deref() {
        None | Some("0") => {
            let better = "for NICs: huge pages, as by sysctl vm.nr_hugepages=512".to_owned();
            Finding { better, ..finding }
        }
        Some(_) => finding,
    }
}

fn huge_pages() -> Finding {
    let transparent = read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = transparent.split(['[', ']']).nth(1).unwrap_or("unknown");
    let reserved = field("/proc/meminfo", "HugePages_Total").unwrap_or_else(|| "0".to_owned());
    let here = format!("transparent: {chosen}, reserved: {reserved}");
    Finding::good("huge pages", here, "not needed but for dpdk://: stacks and rings are small")
}

fn held_capabilities() -> Vec<&'static str> {
    /// Those that matter to Curtail or its transports, with their bits.
    const KNOWN: &[(&str, u32)] = &[
        ("CAP_NET_ADMIN", 12),
        ("CAP_NET_RAW", 13),
        ("CAP_IPC_LOCK", 14),
        ("CAP_SYS_ADMIN", 21),
        ("CAP_SYS_NICE", 23),
        ("CAP_BPF", 39),
    ];
    let bits = field("/proc/self/status", "CapEff")
        .and_then(|hex| u64::from_str_radix(&hex, 16).ok())
        .unwrap_or(0);
    KNOWN.iter().filter(|(_, bit)| bits >> bit & 1 == 1).map(|&(name, _)| name).collect()
}

fn capabilities() -> Finding {
    let held = held_capabilities();
    let here = if held.is_empty() { "none of interest".to_owned() } else { held.join(", ") };
    Finding::good("capabilities", here, "needs none but for xdp:// and dpdk://")
}

fn socket_buffers() -> Finding {
    const WANTED: u64 = 4 << 20;
    let limit = read("/proc/sys/net/core/rmem_max").and_then(|text| text.parse::<u64>().ok());
    match limit {
        Some(bytes) if bytes < WANTED => Finding::poor(
            "socket buffers",
            format!("net.core.rmem_max = {bytes}"),
            "bursts of datagrams beyond that are lost in the kernel",
            format!("sysctl net.core.rmem_max={WANTED}"),
        ),
        Some(bytes) => {
            Finding::good("socket buffers", format!("net.core.rmem_max = {bytes}"), "4 MiB each")
        }
        None => Finding::good("socket buffers", "limit unknown", "asks for 4 MiB each"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_finding_says_what_is_here() {
        let findings = super::all();
        assert!(findings.len() >= 10);
        for finding in findings {
            assert!(!finding.here.is_empty(), "{finding:?}");
            assert!(finding.good || !finding.better.is_empty(), "{finding:?}");
        }
    }
}
