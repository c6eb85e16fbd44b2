#!/usr/bin/env python3
"""apps/web under wrk, with its handlers on tokio's threads, on its blocking threads, on a pool.

    measure.py --program FILE --out DIRECTORY [--seconds N] [--rounds N]

One wrk keeps a few long requests under way all the time (pages, searches, reports, in turns), another
asks for echoes; the program has one core, both clients the other. Every round does it all three ways.
Prints the table of docs/src/pool.md (medians of the rounds); JSON goes to OUT/web.json.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WAYS = ("none", "spawn_blocking", "curtail")
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6}


def cores():
    """The program's core and the clients'; the same where there is one only."""
    mine = sorted(os.sched_getaffinity(0))
    return mine[0], mine[1] if len(mine) > 1 else mine[0]


def microseconds(text):
    """A time as wrk writes it."""
    number, unit = re.fullmatch(r"([0-9.]+)(us|ms|s|m)", text).groups()
    return float(number) * UNITS[unit]


def parse(text):
    """What one wrk found."""
    found = {f"p{p}_us": microseconds(t) for p, t in re.findall(r"^ +(50|99)% +(\S+)$", text, re.M)}
    rate = re.search(r"^Requests/sec: +([0-9.]+)$", text, re.M)
    if len(found) != 2 or rate is None:
        sys.exit(f"wrk said what this script does not know:\n{text}")
    found["rps"] = float(rate.group(1))
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    found["failed"] = int(failed.group(1)) if failed else 0
    found["failed"] += sum(map(int, errors.groups())) if errors else 0
    return found


@contextlib.contextmanager
def serving(program, way, core):
    """The program with its handlers there; its address."""
    command = ["taskset", "-c", str(core), program, "--listen", "127.0.0.1:0", "--pool", way]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **quiet)
    try:
        address = process.stdout.readline().strip()
        if not address:
            sys.exit(f"{way}: {process.stderr.read()}")
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
        if process.returncode != 0:
            sys.exit(f"{way}: ended with {process.returncode}: {said}")


def wrk(address, script, connections, seconds, core):
    """One wrk, running."""
    command = ["taskset", "-c", str(core), "wrk", "--latency", "-t1", f"-c{connections}"]
    command += [f"-d{seconds}s", "--timeout", "10s", "-s", str(HERE / script), address]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measure(program, way, seconds):
    """One round of one way."""
    own, others = cores()
    with serving(program, way, own) as address:
        wrk(address, "short.lua", 2, 1, others).communicate()
        clients = {
            "short": wrk(address, "short.lua", 4, seconds, others),
            "long": wrk(address, "long.lua", 2, seconds, others),
        }
        return {kind: parse(client.communicate()[0]) for kind, client in clients.items()}


def median(rounds, kind, key):
    return statistics.median(one[kind][key] for one in rounds)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", required=True)
    arguments.add_argument("--out", required=True, type=pathlib.Path)
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--rounds", type=int, default=3)
    asked = arguments.parse_args()
    found = {way: [] for way in WAYS}
    for _ in range(asked.rounds):
        for way in WAYS:
            found[way].append(measure(asked.program, way, asked.seconds))
    print("| `--pool` | short p50 | short p99 | short/s | long p99 | long/s | failed |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for way, rounds in found.items():
        times = [
            median(rounds, kind, key) / 1e3
            for kind, key in (("short", "p50_us"), ("short", "p99_us"), ("long", "p99_us"))
        ]
        failed = sum(one[kind]["failed"] for one in rounds for kind in one)
        print(
            f"| `{way}` | {times[0]:.2f} ms | **{times[1]:.2f} ms** | "
            f"{median(rounds, 'short', 'rps'):,.0f} | {times[2]:.1f} ms | "
            f"{median(rounds, 'long', 'rps'):,.0f} | {failed} |"
        )
    asked.out.mkdir(parents=True, exist_ok=True)
    result = {"seconds": asked.seconds, "rounds": found}
    (asked.out / "web.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
