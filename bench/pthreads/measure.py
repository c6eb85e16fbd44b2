#!/usr/bin/env python3
"""Programs of pthreads, as distributions ship them, on the kernel's threads and on Curtail's.

    measure.py --library FILE --out DIRECTORY [--rounds N] [--seconds N] [PROGRAM…]

Each program runs in turns natively and with the library loaded before the C library. Both must say the
same; the time is the median of the rounds. A program that takes longer than a minute counts as hung. Prints
one table; JSON goes to OUT/pthreads.json, and for memcached to OUT/memcached.json.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 60


def environment(library, way, kthreads=None):
    """A program's, natively or with the library."""
    known = dict(os.environ, CURTAIL_QUIET="1")
    for name in ("LD_PRELOAD", "CURTAILD", "CURTAIL_KTHREADS"):
        known.pop(name, None)
    if way == "curtail":
        known["LD_PRELOAD"] = str(library)
        if kthreads:
            known["CURTAIL_KTHREADS"] = str(kthreads)
    return known


def commands(scratch):
    """What is run to its end: its name, the command, and whether what it says is compared."""
    data = str(scratch / "data")
    stress = ["stress-ng", "--metrics-brief", "--quiet"]
    return {
        "pigz": (["pigz", "-c", "-p", "4", data], True),
        "zstd": (["zstd", "-q", "-c", "-T4", data], True),
        "pbzip2": (["pbzip2", "-c", "-p4", data], True),
        "python": (["/usr/bin/python3", str(HERE / "threads.py")], True),
        "stress-ng pthread": ([*stress, "--pthread", "1", "--pthread-ops", "4000"], False),
        "stress-ng futex": ([*stress, "--futex", "1", "--futex-ops", "20000"], False),
        "stress-ng sem": ([*stress, "--sem", "1", "--sem-ops", "20000", "--timeout", "5"], False),
    }


def run(command, known):
    """One run: seconds by the clock, processor seconds, and a hash of what it said."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryFile() as output:
        quiet = {"stdout": output, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        try:
            ended = subprocess.run(command, env=known, timeout=LONGEST, check=False, **quiet)
        except subprocess.TimeoutExpired:
            return None
        seconds = time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        output.seek(0)
        said = hashlib.sha256(output.read()).hexdigest()
    if ended.returncode != 0:
        sys.exit(f"{command[0]}: ended with {ended.returncode}: {ended.stderr.decode()}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, cpu, said


def compare(name, command, says, library, rounds):
    """One program's row."""
    times = {"native": [], "curtail": []}
    said, hung = set(), False
    for _ in range(rounds):
        for way, found in times.items():
            result = run(command, environment(library, way))
            if result is None:
                hung = True
                continue
            found.append(result[:2])
            said.add(result[2])
    row = {"same": not says or len(said) == 1, "hung": hung}
    for way, found in times.items():
        row[f"{way}_s"] = round(statistics.median(t for t, _ in found), 3) if found else None
        row[f"{way}_cpu_s"] = round(statistics.median(c for _, c in found), 3) if found else None
    print(line(name, row), flush=True)
    return row


def line(name, row):
    """For people."""
    same = "hung" if row["hung"] else "same" if row["same"] else "DIFFERS"
    ratio = row["curtail_s"] / row["native_s"] if row["curtail_s"] and row["native_s"] else 0
    native, curtail = row["native_s"] or "-", row["curtail_s"] or "-"
    return f"{name:20} {native:>10} {curtail:>10} {ratio:8.2f}  {same}"


def free_port():
    """One that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving(command, known, port, core=None):
    """A server, from when it answers to its end; its processor seconds are in the list at the end."""
    pinned = ["taskset", "-c", str(core)] if core is not None else []
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    server = subprocess.Popen([*pinned, *command], env=known, **quiet)
    try:
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until or server.poll() is not None:
                    sys.exit(f"{command[0]}: does not answer")
                time.sleep(0.05)
        yield lambda: cpu_of(server.pid)
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def cpu_of(process):
    """Its processor seconds so far."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def redis(library, way, threads):
    """Requests a second of redis-server with so many I/O threads."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--io-threads", str(threads)]
    command += ["--io-threads-do-reads", "yes", "--bind", "127.0.0.1"]
    with serving(command, environment(library, way), port) as cpu:
        client = ["timeout", "30", "redis-benchmark", "-p", str(port), "-q", "-t", "get", "-n", "5000"]
        begun = cpu()
        said = subprocess.run([*client, "--csv"], capture_output=True, text=True, check=False).stdout
        used = cpu() - begun
    rate = re.search(r'^"GET","([0-9.]+)"', said, re.M)
    return (float(rate.group(1)), used) if rate else None


def compare_redis(library, rounds, threads):
    """A row of it."""
    found = {"native": [], "curtail": []}
    for _ in range(rounds):
        for way, rates in found.items():
            rates.append(redis(library, way, threads))
    hung = any(rate is None for rates in found.values() for rate in rates)
    row = {"hung": hung, "same": True}
    for way, rates in found.items():
        rates = [rate[0] for rate in rates if rate]
        row[f"{way}_rps"] = round(statistics.median(rates)) if rates else None
    native, curtail = row["native_rps"] or 0, row["curtail_rps"] or 0
    ratio = native / curtail if curtail else 0
    name, state = f"redis-server {threads}", "hung" if hung else "same"
    print(f"{name:20} {native:>8}/s {curtail:>8}/s {ratio:8.2f}  {state}", flush=True)
    return row


def memcached(library, way, seconds):
    """One run at one core, the client on the other: requests a second, and for a processor second."""
    mine = sorted(os.sched_getaffinity(0))
    port = free_port()
    command = ["memcached", "-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", str(port), "-t", "1"]
    with serving(command, environment(library, way, 1), port, mine[0]) as cpu:
        client = ["taskset", "-c", str(mine[-1]), "timeout", str(seconds + 20), "memcaslap"]
        client += ["-s", f"127.0.0.1:{port}", "-T", "1", "-c", "32", "-t", f"{seconds}s"]
        begun = cpu()
        said = subprocess.run(client, capture_output=True, text=True, check=False).stdout
        used = cpu() - begun
    found = re.search(r"Ops: (\d+) TPS: (\d+)", said)
    if not found:
        sys.exit(f"memcaslap said what this script does not know:\n{said}")
    return int(found.group(2)), int(found.group(1)) / max(used, 0.01)


def compare_memcached(library, rounds, seconds):
    """Rates of both."""
    found = {"native": [], "curtail": []}
    for _ in range(rounds):
        for way, rates in found.items():
            rates.append(memcached(library, way, seconds))
    row = {}
    for way, rates in found.items():
        row[way] = {
            "rps": round(statistics.median(rate for rate, _ in rates)),
            "per_cpu_s": round(statistics.median(each for _, each in rates)),
        }
        print(f"memcached {way:8} {row[way]['rps']:>8}/s {row[way]['per_cpu_s']:>8} a processor second")
    return row


def main():
    """All of it, or what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    library = options.library.resolve(strict=True)

    def wanted(name):
        return not options.programs or name.split()[0] in options.programs

    machine = {"cores": len(os.sched_getaffinity(0)), "kernel": os.uname().release}
    with tempfile.TemporaryDirectory() as place:
        scratch = pathlib.Path(place)
        with open(scratch / "data", "wb") as data:
            for path in sorted(pathlib.Path("/usr/bin").iterdir()):
                if path.is_file() and data.tell() < 40_000_000:
                    data.write(path.read_bytes())
        rows = {}
        print(f"{'program':20} {'native':>10} {'curtail':>10} {'ratio':>8}")
        for name, (command, says) in commands(scratch).items():
            if wanted(name) and shutil.which(command[0]):
                rows[name] = compare(name, command, says, library, options.rounds)
        for threads in (1, 2, 4):
            if wanted("redis-server") and shutil.which("redis-server"):
                rows[f"redis-server {threads}"] = compare_redis(library, options.rounds, threads)
    if rows:
        result = {"programs": rows, "machine": machine}
        (options.out / "pthreads.json").write_text(json.dumps(result, indent=1))
    if wanted("memcached") and shutil.which("memcached") and shutil.which("memcaslap"):
        result = {"one_core": compare_memcached(library, options.rounds, options.seconds)}
        result["machine"] = machine
        (options.out / "memcached.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
