#!/usr/bin/env python3
"""apps/dns under dnsperf, beside knot and gdnsd: one core each, alone and beside batch work.

    measure.py --program FILE --curtail FILE --daemon FILE --batch FILE --batch-plain FILE --out DIRECTORY
               [--seconds N] [--rounds N] [--rate N]

The server and the batch work share one core, dnsperf has another. Every round does all of it in turns: as
many queries as the server answers, and then a rate that all of them can answer, with the time of each.
Prints Markdown (medians of the rounds); JSON goes to OUT/dns.json.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from servers import end, running

NAME = "bench.example"
NAMES = 10_000
POLICIES = ("fcfs", "tq", "shenango")


def zone(file):
    """A zone of addresses, aliases and mail servers that every server takes."""
    lines = ["$TTL 3600", "@ SOA ns1 host 1 7200 900 1209600 300", "@ NS ns1", "ns1 A 192.0.2.1"]
    for n in range(NAMES):
        lines.append(f"host{n} A 10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}")
        if n % 10 == 0:
            lines.append(f"alias{n} CNAME host{n}")
            lines.append(f"mail{n} MX 10 host{n}")
    file.write_text("\n".join(lines) + "\n")


def queries(file):
    """Seven in ten for addresses; aliases, mail servers, and names that are not there."""
    chosen = random.Random(1)
    kinds = [("host{}", "A")] * 7 + [("alias{}", "A"), ("mail{}", "MX"), ("nothing{}", "A")]
    lines = []
    for _ in range(50_000):
        (name, rtype), n = chosen.choice(kinds), chosen.randrange(NAMES // 10) * 10
        lines.append(f"{name.format(n)}.{NAME} {rtype}")
    file.write_text("\n".join(lines) + "\n")


class Batch:
    """Batch work that says how far it is."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def ask(self):
        """Its units and nanoseconds so far."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        units, time_ns = self.process.stdout.readline().split()
        return int(units), int(time_ns)

    def rate(self, since):
        """Units per ns since then."""
        (units, now), (before, then) = self.ask(), since
        return (units - before) / (now - then)

    def end(self):
        """It ends when its input does."""
        self.process.stdin.close()
        self.process.stdout.close()
        if self.process.wait(15) != 0:
            sys.exit(f"batch work ended with {self.process.returncode}")


@contextlib.contextmanager
def batch(command):
    """Batch work, from when it runs to its end."""
    work = Batch(command)
    try:
        work.ask()
        yield work
    finally:
        work.end()


def dnsperf(port, file, seconds, core, *more):
    """One dnsperf, and what it said."""
    command = ["taskset", "-c", str(core), "dnsperf", "-s", "127.0.0.1", "-p", str(port)]
    command += ["-d", str(file), "-l", str(seconds), "-c", "8", "-T", "1", "-t", "1", *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rate_of(said):
    """Answers a second, and queries that had none."""
    rate = re.search(r"Queries per second: +([0-9.]+)", said)
    lost = re.search(r"Queries lost: +(\d+)", said)
    if rate is None or lost is None:
        sys.exit(f"dnsperf said what this script does not know:\n{said}")
    return float(rate.group(1)), int(lost.group(1))


def times_of(said):
    """Microseconds of each query that a verbose dnsperf tells of."""
    lines = re.finditer(r"^> (NOERROR|NXDOMAIN) \S+ \S+ ([0-9.]+)$", said, re.M)
    return sorted(float(line.group(2)) * 1e6 for line in lines)


def measure(options, port, file, work):
    """One server as it is now."""
    core = options.cores[0]
    before = work.ask() if work else None
    most, _ = rate_of(dnsperf(port, file, options.seconds, core, "-q", "64"))
    busy = work.rate(before) if work else None
    before = work.ask() if work else None
    said = dnsperf(port, file, options.seconds, core, "-Q", str(options.rate), "-v")
    kept = work.rate(before) if work else None
    rate, lost = rate_of(said)
    times = times_of(said)
    if not times:
        sys.exit(f"dnsperf tells of no query:\n{said[:500]}")
    at = {f"p{p}_us": times[min(int(len(times) * p / 100), len(times) - 1)] for p in (50, 99, 99.9)}
    return {"most_qps": most, "qps": rate, "lost": lost, **at, "batch": kept, "batch_busy": busy}


def ways(options):
    """Names of what is measured, and how each is started: kind, options, whether by the allocator."""
    found = {f"apps/dns, `{name}`": ("dns", ["--policy", name], False) for name in POLICIES}
    found["apps/dns, `shenango`, curtaild"] = ("dns", ["--policy", "shenango"], True)
    for peer in ("knot", "gdnsd"):
        if shutil.which("knotd" if peer == "knot" else peer):
            found[peer] = (peer, [], False)
    return found


@contextlib.contextmanager
def allocator(options, socket):
    """A core allocator of the shared core."""
    command = ["taskset", "-c", ",".join(map(str, options.cores)), str(options.daemon)]
    command += ["--cores", str(options.cores[1]), "--socket", str(socket)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while not socket.exists():
            if time.monotonic() > until or process.poll() is not None:
                sys.exit("curtaild does not listen")
            time.sleep(0.01)
        yield
    finally:
        end(process)


def one(options, way, beside, scratch):
    """One server, alone or beside batch work."""
    kind, words, elastic = way
    file, asked = scratch / "zone", scratch / "queries"
    shared = options.cores[1]
    with contextlib.ExitStack() as stack:
        command = ["taskset", "-c", str(shared), "chrt", "--idle", "0", str(options.batch_plain)]
        place = shared
        if elastic:
            socket = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "socket"
            stack.enter_context(allocator(options, socket))
            words = [*words, "--daemon", str(socket), "--daemon-port"]
            command = [str(options.curtail), "batch", "--daemon", str(socket), "--", str(options.batch)]
            place = None
        server = running(kind, NAME, file, options.program, words, place)
        port, _ = stack.enter_context(server)
        work = stack.enter_context(batch(command)) if beside else None
        dnsperf(port, asked, 1, options.cores[0], "-Q", "1000")
        return measure(options, port, asked, work)


def alone(options, program):
    """The rate of batch work that has the core to itself."""
    with batch(["taskset", "-c", str(options.cores[1]), str(program)]) as work:
        before = work.ask()
        time.sleep(1)
        return work.rate(before)


def table(found, rates):
    """Markdown: a row for each server, alone and beside batch work."""
    print("| | | most, queries/s | p50 | p99 | p99.9 | lost | batch |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for (name, beside), rounds in found.items():
        middle = {key: statistics.median(one[key] or 0 for one in rounds) for key in rounds[0]}
        times = " | ".join(f"{middle[f'p{p}_us']:,.0f} µs" for p in (50, 99, 99.9))
        rate = statistics.median(rates["looks" if "curtaild" in name else "plain"])
        share = f"{middle['batch'] / rate:.0%}" if beside else "–"
        where = "beside batch" if beside else "alone"
        lost = sum(one["lost"] for one in rounds)
        print(f"| {name} | {where} | {middle['most_qps']:,.0f} | {times} | {lost} | {share} |")


def main():
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("program", "curtail", "daemon", "batch", "batch-plain", "out"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=10_000)
    options = parser.parse_args()
    options.cores = sorted(os.sched_getaffinity(0))[:2]
    if len(options.cores) < 2:
        sys.exit("needs two cores: one for dnsperf, one for the servers")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        zone(scratch / "zone")
        queries(scratch / "queries")
        found, rates = {}, {"plain": [], "looks": []}
        for _ in range(options.rounds):
            rates["plain"].append(alone(options, options.batch_plain))
            rates["looks"].append(alone(options, options.batch))
            for name, way in ways(options).items():
                for beside in (False, True):
                    result = one(options, way, beside, scratch)
                    found.setdefault((name, beside), []).append(result)
    table(found, rates)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [{"server": n, "beside_batch": b, "rounds": r} for (n, b), r in found.items()]
    result = {"rate": options.rate, "seconds": options.seconds, "batch_alone": rates, "rows": rows}
    (options.out / "dns.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
