#!/usr/bin/env python3
"""Servers with one dispatcher, with two, and without one: over sockets, under the same open-loop load.

    measure.py --curtail FILE --out DIRECTORY [--before FILE] [--schemes udp,tcp] [--rates 20k,80k]
               [--servers NAME,…] [--rounds N] [--flows N]

Every server has two workers, whose requests take 1 us. Every round starts each of them anew, in another
order. FILE is `curtail`; `--before`: that of another version, beside. Prints Markdown: medians of the
rounds, of processor time per answered request (and the least of it), answers per second, p50 and p99 of the
sojourn times. JSON goes to OUT/dispatchers.json.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import re
import signal
import statistics
import subprocess
import sys

TICKS = os.sysconf("SC_CLK_TCK")
# Name: what `curtail serve` is to do for it.
WAYS = {
    "one dispatcher": ["--policy", "fcfs", "--dispatchers", "1"],
    "two dispatchers": ["--policy", "fcfs", "--dispatchers", "2"],
    "no dispatcher": ["--policy", "shenango"],
}


def processor_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(program, options, load, scheme, rate, flows):
    """One server under one load."""
    serve = [program, "serve", "--app", "spin", "--preempt", "never", "--workers", "2", *options]
    serve += ["--dispatcher", "blocking", "--listen", f"{scheme}://127.0.0.1:0"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = (re.search(rf"{scheme}://[\d.]+:\d+", line) for line in server.stdout)
        url = next((found.group(0) for found in lines if found), None)
        if url is None:
            sys.exit(f"{' '.join(serve)} does not listen")
        before = processor_s(server.pid)
        ask = [load, "load", url, "--classes", "a:1us:1", "--rate", rate, "--connections", str(flows)]
        ask += ["--duration", "2s", "--timeout", "300ms", "--warmup", "0s", "--json", "-"]
        # It fails where answers are missing, which is a result here.
        answers = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        took = processor_s(server.pid) - before
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    result = json.loads(answers.stdout)
    result = result[0] if isinstance(result, list) else result
    return {
        "processor_us": took * 1e6 / max(1, result["completed"]),
        "rps": result["achieved_rps"],
        "p50_us": result["sojourn_ns"]["p50"] / 1e3,
        "p99_us": result["sojourn_ns"]["p99"] / 1e3,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--curtail", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--before")
    parser.add_argument("--schemes", default="udp,tcp")
    parser.add_argument("--rates", default="20k,80k")
    parser.add_argument("--servers", default=",".join(WAYS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--flows", type=int, default=64)
    args = parser.parse_args()
    chosen = [(name, WAYS[name]) for name in args.servers.split(",")]
    ways = [(name, args.curtail, options) for name, options in chosen]
    if args.before:
        ways += [(f"{name}, before", args.before, options) for name, options in chosen]
    points = [(scheme, rate) for scheme in args.schemes.split(",") for rate in args.rates.split(",")]
    rows = {}
    for _ in range(args.rounds):
        for scheme, rate in points:
            for name, program, options in random.sample(ways, len(ways)):
                found = run(program, options, args.curtail, scheme, rate, args.flows)
                rows.setdefault((scheme, rate, name), []).append(found)
    print("| | requests/s | server | processor µs a request | least | answers/s | p50 µs | p99 µs |")
    print("|---|---|---|---|---|---|---|---|")
    results = []
    for (scheme, rate), (name, *_) in ((point, way) for point in points for way in ways):
        runs = rows[scheme, rate, name]
        median = {what: statistics.median(one[what] for one in runs) for what in runs[0]}
        least = min(one["processor_us"] for one in runs)
        print(
            f"| {scheme} | {rate} | {name} | {median['processor_us']:.1f} | {least:.1f} "
            f"| {median['rps']:,.0f} | {median['p50_us']:,.0f} | {median['p99_us']:,.0f} |"
        )
        results.append({"scheme": scheme, "rate": rate, "server": name, "runs": runs})
    args.out.mkdir(parents=True, exist_ok=True)
    machine = {"cpus": os.cpu_count(), "kernel": platform.release()}
    path = args.out / "dispatchers.json"
    path.write_text(json.dumps({"results": results, "machine": machine}, indent=1) + "\n")


if __name__ == "__main__":
    main()
