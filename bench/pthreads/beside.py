#!/usr/bin/env python3
"""memcached and batch work on one core: under curtaild, by Linux's SCHED_IDLE, and alone.

    beside.py --curtail FILE --curtaild FILE --out DIRECTORY [--rates 5000,20000] [--rounds N] [--seconds N]

Shenango's Figure 3 (NSDI'19) with its workload, USR: 99.8% GETs and 0.2% SETs of values of 2 bytes by keys of
16 and 21, as often, at random times. The server and batch work have the first core; the client, and the
daemon, have the last. The default rates are 10% to 90% of what memcached serves alone, natively, under more
than it can do. Rounds are in turns, and each figure is the median of its rounds. `batch` is what batch work
did, over what it does on an idle core. `others` is what programs besides these had of both cores: each run
waits a little for an idle machine, and is done again where that was more than a twentieth. Prints a table;
JSON goes to OUT/memcached-beside.json.
"""

import argparse
import functools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from measure import cpu_of, environment, free_port, serving

HERE = pathlib.Path(__file__).resolve().parent
KEYS = 1_000
USR = {"get": 99.8, "set": 0.2}
KEY_BYTES = (16, 21)
# More than a core serves.
TOO_MANY = 120_000
# How much of the machine others may have, how often a run is done for that, and how long one waits for it.
MOST_OTHERS, MOST_RUNS, MOST_WAIT = 0.05, 4, 20
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
        self.rate = None

    def __enter__(self):
        self.begun = time.monotonic()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        seconds = time.monotonic() - self.begun
        said, _ = self.process.communicate(timeout=20)
        self.rate = (float(said.split()[0]) if said.strip() else 0.0) / seconds


def busy():
    """Seconds of processes, and of other machines, on all cores so far: interrupts are no process's."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, _, _, stolen, *_ = map(int, stat.readline().split()[1:])
    return (user + nice + system + stolen) / os.sysconf("SC_CLK_TCK")


def undisturbed(run, daemon):
    """The run's figures, and others' share: the least disturbed of a few where all were."""
    cores, least = os.cpu_count(), None
    for _ in range(MOST_RUNS):
        for _ in range(MOST_WAIT):
            before = busy()
            time.sleep(1)
            if busy() - before < MOST_OTHERS * cores:
                break

        def ours():
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            return children.ru_utime + children.ru_stime + (cpu_of(daemon.pid) if daemon else 0)

        begun, all_before, ours_before = time.monotonic(), busy(), ours()
        figures = run()
        used = (busy() - all_before) - (ours() - ours_before)
        others = max(0.0, used / cores / (time.monotonic() - begun))
        if least is None or others < least[-1]:
            least = (*figures, others)
        if others <= MOST_OTHERS:
            break
    return least


def batch_command(options, program, daemon):
    """Of the lowest class, on the server's core."""
    if daemon:
        return [str(options.curtail), "batch", "--daemon", daemon, "--", str(program)]
    return ["taskset", "-c", str(options.core), "chrt", "-i", "0", str(program)]


def batch_alone(options, program):
    """What it does in a second on an idle core, and nothing else."""
    with Batch(batch_command(options, program, None)) as batch:
        subprocess.run(["sleep", str(options.seconds)], check=True)
    return (batch.rate,)


def commands(shares):
    """The client's, of these shares: keys of both lengths as often."""
    values = {"get": "", "set": " {value}"}
    for name, share in shares.items():
        for length in KEY_BYTES:
            yield from ("--command", f"{share}:{name} {{key:{length}}}{values[name]}")


def ask(options, port, shares, rate, seconds):
    """One run of the client."""
    client = ["taskset", "-c", str(options.client), str(options.curtail), "load"]
    client += [f"memcached://127.0.0.1:{port}", *commands(shares), "--keys", str(KEYS)]
    client += ["--value-size", "2", "--connections", "16", "--max-lateness", "100ms"]
    client += ["--rate", str(rate), "--duration", f"{seconds}s", "--json", "-"]
    # A run in which the server is saturated ends with 1, and has its figures.
    ended = subprocess.run(client, check=False, capture_output=True, text=True)
    if ended.returncode == 2 or not ended.stdout.strip():
        sys.exit(f"the client says: {ended.stderr}")
    found = json.loads(ended.stdout)
    return found[0] if isinstance(found, list) else found


def measure(options, program, way, rate, daemon):
    """One run: p50, p99 and p99.9 in µs, requests a second, and what batch work did in a second."""
    ours, beside = WAYS[way]
    port = free_port()
    server = ["memcached", "-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", str(port), "-t", "1"]
    core = options.core
    if ours:
        run = [str(options.curtail), "run", "--daemon", daemon, "--pthreads", "--kthreads", "1", "--"]
        server, core = [*run, *server], None
    with serving(server, environment(None, "native"), port, core):
        ask(options, port, {"set": 1}, 10_000, 1)
        done = 0.0
        if beside:
            with Batch(batch_command(options, program, daemon if ours else None)) as batch:
                found = ask(options, port, USR, rate, options.seconds)
            done = batch.rate
        else:
            found = ask(options, port, USR, rate, options.seconds)
    sojourn = found["sojourn_ns"]
    return (*(sojourn[name] / 1e3 for name in ("p50", "p99", "p99_9")), found["achieved_rps"], done)


def rates_of(options, program):
    """What is offered: as asked, or tenths of what memcached serves natively."""
    if options.rates:
        return [int(rate) for rate in options.rates.split(",")]
    runs = [measure(options, program, "native, alone", TOO_MANY, None) for _ in range(3)]
    most = statistics.median(run[3] for run in runs)
    print(f"natively, {most:.0f} a second are served of {TOO_MANY}")
    return [round(most * tenth / 10) for tenth in range(1, 10)]


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
    parser.add_argument("--rates")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    options.core, options.client = cores[0], cores[-1]
    found = {}
    with tempfile.TemporaryDirectory() as place:
        program = pathlib.Path(place) / "batch"
        subprocess.run(["cc", "-O2", str(HERE / "batch.c"), "-o", str(program)], check=True)
        rates = rates_of(options, program)
        daemon, path = daemon_of(options, place)
        try:
            by_itself = functools.partial(batch_alone, options, program)
            alone = statistics.median(undisturbed(by_itself, None)[0] for _ in range(options.rounds))
            for _ in range(options.rounds):
                for rate in rates:
                    for way in WAYS:
                        one = functools.partial(measure, options, program, way, rate, path)
                        found.setdefault((way, rate), []).append(undisturbed(one, daemon))
        finally:
            daemon.terminate()
            daemon.wait()
    rows = []
    print(f"{'':26} {'rate':>7} {'p50 us':>8} {'p99 us':>8} {'p99.9 us':>9} {'served/s':>9}  batch others")
    for (way, rate), runs in sorted(found.items(), key=lambda item: item[0][1]):
        p50, p99, p999, served, done, others = map(statistics.median, zip(*runs, strict=True))
        row = {"how": way, "rate": rate, "p50_us": round(p50, 1), "p99_us": round(p99, 1)}
        row |= {"p99_9_us": round(p999, 1), "rps": round(served)}
        row |= {"batch": round(done / alone, 3), "others": round(others, 3), "runs": runs}
        rows.append(row)
        latencies = f"{p50:>8.1f} {p99:>8.0f} {p999:>9.0f}"
        print(f"{way:26} {rate:>7} {latencies} {served:>9.0f} {row['batch']:>6.2f} {others:>6.2f}")
    options.out.mkdir(parents=True, exist_ok=True)
    machine = {"cores": len(cores), "kernel": os.uname().release}
    result = {"beside": rows, "batch_alone": alone, "machine": machine}
    (options.out / "memcached-beside.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
