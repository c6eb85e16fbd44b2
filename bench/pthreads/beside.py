#!/usr/bin/env python3
"""memcached and batch work on one core: under curtaild, by Linux's SCHED_IDLE, and alone.

    beside.py --curtail FILE --curtaild FILE --out DIRECTORY [--rates 5000,20000] [--rounds N] [--seconds N]

Shenango's question (NSDI'19, Figures 3 to 5), with its sizes: GETs of values of 2 bytes, by keys of 19 to
21, by an open loop. The server and batch work have the first core; the client, and the daemon, have the last.
Figures are medians of the rounds. `batch` is what batch work did, over what it does on an idle core. Prints a
table; JSON goes to OUT/memcached-beside.json.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import environment, free_port, serving

HERE = pathlib.Path(__file__).resolve().parent
KEYS = 1_000
# How: on Curtail's threads under the daemon or not, and whether batch work is beside it.
WAYS = {
    "native, alone": (False, False),
    "curtail, alone": (True, False),
    "native beside SCHED_IDLE": (False, True),
    "curtail beside batch": (True, True),
}


class Batch:
    """Batch work, as long as the block lasts."""

    def __init__(self, command):
        self.command = command
        self.done = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        said, _ = self.process.communicate(timeout=20)
        self.done = float(said.split()[0]) if said.strip() else 0.0


def batch_command(options, program, daemon):
    """Of the lowest class, on the server's core."""
    if daemon:
        return [str(options.curtail), "batch", "--daemon", daemon, "--", str(program)]
    return ["taskset", "-c", str(options.core), "chrt", "-i", "0", str(program)]


def batch_alone(options, program):
    """What it does in a second on an idle core."""
    with Batch(batch_command(options, program, None)) as batch:
        subprocess.run(["sleep", str(options.seconds)], check=True)
    return batch.done / options.seconds


def ask(options, port, rate):
    """One run of the client."""
    url = f"memcached://127.0.0.1:{port}"
    key = "usr:0000000000000:{key}"
    quick = ["taskset", "-c", str(options.client), str(options.curtail), "load", url]
    quick += ["--keys", str(KEYS), "--value-size", "2", "--connections", "16", "--json", "-"]
    quick += ["--max-lateness", "100ms"]
    fill = [*quick, "--command", f"set {key} {{value}}", "--rate", "5000", "--duration", "1s"]
    subprocess.run(fill, check=True, capture_output=True)
    gets = [*quick, "--command", f"get {key}", "--rate", str(rate)]
    gets += ["--duration", f"{options.seconds}s"]
    found = subprocess.run(gets, check=True, capture_output=True, text=True).stdout
    found = json.loads(found)
    return found[0] if isinstance(found, list) else found


def measure(options, program, way, rate, daemon):
    """One run: p50 and p99 in µs, requests a second, and what batch work did in a second."""
    ours, beside = WAYS[way]
    port = free_port()
    server = ["memcached", "-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", str(port), "-t", "1"]
    core = options.core
    if ours:
        run = [str(options.curtail), "run", "--daemon", daemon, "--pthreads", "--kthreads", "1", "--"]
        server, core = [*run, *server], None
    with serving(server, environment(None, "native"), port, core):
        if beside:
            with Batch(batch_command(options, program, daemon if ours else None)) as batch:
                found = ask(options, port, rate)
            # It ran while the store was filled, too.
            done = batch.done / (options.seconds + 1)
        else:
            found, done = ask(options, port, rate), 0.0
    sojourn = found["sojourn_ns"]
    return sojourn["p50"] / 1e3, sojourn["p99"] / 1e3, found["achieved_rps"], done


def daemon_of(options, place):
    """The core allocator, on the client's core, of the server's."""
    path = str(pathlib.Path(place) / "daemon")
    command = ["taskset", "-c", f"{options.core},{options.client}", str(options.curtaild)]
    command += ["--cores", str(options.core), "--socket", path]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet)
    while not os.path.exists(path):
        if process.poll() is not None:
            sys.exit("curtaild ended")
        subprocess.run(["sleep", "0.05"], check=True)
    return process, path


def main():
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curtail", required=True, type=pathlib.Path)
    parser.add_argument("--curtaild", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--rates", default="5000,10000,20000,40000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    options.core, options.client = cores[0], cores[-1]
    found = {}
    with tempfile.TemporaryDirectory() as place:
        program = pathlib.Path(place) / "batch"
        subprocess.run(["cc", "-O2", str(HERE / "batch.c"), "-o", str(program)], check=True)
        daemon, path = daemon_of(options, place)
        try:
            alone = statistics.median(batch_alone(options, program) for _ in range(options.rounds))
            for _ in range(options.rounds):
                for rate in map(int, options.rates.split(",")):
                    for way in WAYS:
                        run = measure(options, program, way, rate, path)
                        found.setdefault((way, rate), []).append(run)
        finally:
            daemon.terminate()
            daemon.wait()
    rows = []
    print(f"{'':26} {'rate':>7} {'p50 us':>8} {'p99 us':>9} {'served/s':>9} {'batch':>6}")
    for (way, rate), runs in sorted(found.items(), key=lambda item: item[0][1]):
        p50, p99, served, done = (statistics.median(column) for column in zip(*runs, strict=True))
        row = {"how": way, "rate": rate, "p50_us": round(p50, 1), "p99_us": round(p99, 1)}
        row |= {"rps": round(served), "batch": round(done / alone, 3), "runs": len(runs)}
        rows.append(row)
        print(f"{way:26} {rate:>7} {p50:>8.1f} {p99:>9.1f} {served:>9.0f} {row['batch']:>6.2f}")
    options.out.mkdir(parents=True, exist_ok=True)
    result = {"beside": rows, "machine": {"cores": len(cores), "kernel": os.uname().release}}
    (options.out / "memcached-beside.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
