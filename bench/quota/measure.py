#!/usr/bin/env python3
"""A server in control groups with a CPU quota: what it uses while idle, and its tails.

    measure.py --curtail FILE --out DIRECTORY [--quota CPUS,…] [--seconds N] [--rounds N]

For each quota (0.5, 2, and none) and policy, `curtail serve` runs in a group of its own; `curtail load`
offers the same load each time, from outside of the group, on the same cores. The groups are made below
the machine's (version 2 or 1) and removed at the end; where this process may not make any, it says what to
do. Prints a table; JSON goes to OUT/quota.json.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

PERIOD_US = 100_000
POLICIES = ("tq", "shenango-ps")
CLASSES = "short:10us:99,long:1ms:1"
# Mean service 19.9 µs: three tenths of half a CPU.
RATE = "7500"
HELP = """no control group can be made here:
{why}
Run it as root on a machine (or in a virtual machine) that mounts the controller `cpu` for writing:
    sudo --preserve-env=PATH,HOME ./x bench quota
In Docker: docker run --privileged --cgroupns=host … ./x bench quota"""


class Group:
    """A control group of ours with a CPU quota."""

    def __init__(self, path, unified, cpus):
        self.path = path
        path.mkdir()
        try:
            quota = str(round(cpus * PERIOD_US))
            if unified:
                # The kernel makes a group's files: to open one for writing must not make another.
                self.write("cpu.max", f"{quota} {PERIOD_US}")
            else:
                self.write("cpu.cfs_period_us", str(PERIOD_US))
                self.write("cpu.cfs_quota_us", quota)
        except OSError:
            path.rmdir()
            raise

    def write(self, name, text):
        with open(os.open(self.path / name, os.O_WRONLY), "w", encoding="ascii") as file:
            file.write(text)

    def throttled(self):
        """Periods in which it was stopped for having used its quota up."""
        stat = dict(line.split() for line in (self.path / "cpu.stat").read_text().splitlines())
        return int(stat["nr_throttled"])

    def inside(self, command):
        """The command, which a shell puts into the group."""
        return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(self.path), *command]


class NoGroup:
    """As the machine is."""

    def throttled(self):
        return 0

    def inside(self, command):
        return command


@contextlib.contextmanager
def group(cpus):
    if cpus is None:
        yield NoGroup()
        return
    name = f"curtail-quota-{os.getpid()}"
    why = []
    for base, unified in (("/sys/fs/cgroup", True), ("/sys/fs/cgroup/cpu", False)):
        try:
            made = Group(pathlib.Path(base) / name, unified, cpus)
        except OSError as error:
            why.append(f"  {error}")
            continue
        try:
            yield made
        finally:
            made.path.rmdir()
        return
    sys.exit(HELP.format(why="\n".join(why)))


@contextlib.contextmanager
def serving(curtail, policy, within):
    """The server in its group; its process and address."""
    command = [curtail, "serve", "--app", "spin", "--listen", "udp://127.0.0.1:0"]
    command += ["--classes", CLASSES, "--policy", policy]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(within.inside(command), **quiet)
    try:
        url = None
        while url is None:
            line = process.stderr.readline()
            if not line:
                sys.exit(f"the server ended with {process.wait()}")
            if "listening on " in line:
                url = line.split("listening on ")[1].split()[0]
        yield process, url
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def cpu_ns(process):
    """What all threads of a process have had, and how many they are."""
    tasks = list(pathlib.Path(f"/proc/{process.pid}/task").iterdir())
    times = [int((task / "schedstat").read_text().split()[0]) for task in tasks]
    return sum(times), len(times)


def measure(curtail, policy, cpus, seconds):
    """One round at one quota under one policy."""
    with group(cpus) as within, serving(curtail, policy, within) as (process, url):
        # What it does at its beginning is over by then.
        time.sleep(1)
        begun, before = time.monotonic_ns(), cpu_ns(process)[0]
        time.sleep(seconds)
        used, threads = cpu_ns(process)
        idle = (used - before) / (time.monotonic_ns() - begun)
        throttled = within.throttled()
        command = [curtail, "load", url, "--classes", CLASSES, "--rate", RATE]
        command += ["--duration", f"{seconds}s", "--json", "-"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        # Without success, but with a result: that it is not valid stands in it.
        if done.returncode != 0 and not done.stdout:
            sys.exit(f"the load generator ended with {done.returncode}")
        found = json.loads(done.stdout)
        throttled = within.throttled() - throttled
    short = found["classes"][0]["sojourn_ns"]
    return {
        "idle_cpus": idle,
        "threads": threads,
        "throttled_periods": throttled,
        "completed": found["completed"],
        "offered": found["offered"],
        "valid": found["valid"],
        "short_p50_us": short["p50"] / 1e3,
        "short_p99_us": short["p99"] / 1e3,
        "short_p99_9_us": short["p99_9"] / 1e3,
    }


def quotas(text):
    """Numbers of CPUs, and `none`."""
    found = [None if part == "none" else float(part) for part in text.split(",")]
    if any(cpus is not None and cpus < 0.01 for cpus in found):
        raise ValueError("at least 0.01 CPUs")
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--curtail", required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    arguments.add_argument("--quota", type=quotas, default=[0.5, 2.0, None], metavar="CPUS,…")
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--rounds", type=int, default=3)
    asked = arguments.parse_args()
    if min(asked.seconds, asked.rounds) < 1:
        arguments.error("--seconds and --rounds: at least 1")
    settings = [(cpus, policy) for cpus in asked.quota for policy in POLICIES]
    found = {setting: [] for setting in settings}
    for _ in range(asked.rounds):
        for cpus, policy in settings:
            found[cpus, policy].append(measure(asked.curtail, policy, cpus, asked.seconds))
    print(
        "| quota | policy | threads | CPUs used idle | short p50 | short p99 | short p99.9 | "
        "periods stopped in | answered |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for (cpus, policy), rounds in found.items():
        keys = rounds[0].keys() - {"completed", "offered"}
        median = {key: statistics.median(one[key] for one in rounds) for key in keys}
        answered = sum(one["completed"] for one in rounds) / sum(one["offered"] for one in rounds)
        print(
            f"| {cpus or 'none'} | `{policy}` | {median['threads']:.0f} | "
            f"{median['idle_cpus']:.3f} | {median['short_p50_us']:,.0f} µs | "
            f"{median['short_p99_us']:,.0f} µs | {median['short_p99_9_us']:,.0f} µs | "
            f"{median['throttled_periods']:.0f} of {asked.seconds * 10} | {answered:.2%} |"
        )
    rows = [{"quota": cpus, "policy": policy, "rounds": rounds} for (cpus, policy), rounds in found.items()]
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
    }
    result = {"rate": RATE, "classes": CLASSES, "quotas": rows, "machine": machine}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "quota.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
