#!/usr/bin/env python3
"""What safepoints cost LevelDB: to compile, and in scans and gets.

    measure.py --tools DIRECTORY --source DIRECTORY --out DIRECTORY [--rounds N] [--quantum 2us]

Builds all of LevelDB and `requests.cc` with `--safepoint=none` and with safepoints, in turns, and
runs scans and gets without safepoints, with safepoints that are not armed (idle) and with such that
fire at the quantum and record (armed). Times are CPU times, of the quickest round and the median of
the rounds' ratios; the outputs must be the same. JSON goes to OUT/leveldb.json.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("none", "clock")
WORK = {"scan": ("2000", "0"), "get": ("0", "2000000")}
DEFINES = [
    "HAVE_CRC32C=0",
    "HAVE_FDATASYNC=1",
    "HAVE_FULLFSYNC=0",
    "HAVE_O_CLOEXEC=1",
    "HAVE_SNAPPY=0",
    "LEVELDB_HAS_PORT_CONFIG_H=0",
    "LEVELDB_IS_BIG_ENDIAN=0",
    "LEVELDB_PLATFORM_POSIX=1",
    "NDEBUG",
]


def cpu_seconds(command, **options):
    """Runs it, children included; its CPU time and what it printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command[:2])} … failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, printed


def sources(tree):
    """LevelDB's library, without tests, tools and other systems."""
    found = [f for part in ("db", "table", "util", "helpers/memenv") for f in (tree / part).glob("*.cc")]
    left_out = ("test", "leveldbutil", "windows", "bench")
    return sorted(f for f in found if f.name != "c.cc" and not any(w in f.name for w in left_out))


def compile_all(tools, tree, kind, out):
    """CPU seconds to compile and link everything; leaves the program in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    compiler = [str(tools / "curtail-c++"), f"--safepoint={kind}", "-O2", "-std=c++17"]
    compiler += [f"-D{name}" for name in DEFINES] + [f"-I{tree}", f"-I{tree / 'include'}"]
    total, objects = 0.0, []
    for source in [*sources(tree), HERE / "requests.cc"]:
        objects.append(str(out / f"{source.parent.name}-{source.name}.o"))
        total += cpu_seconds([*compiler, "-c", str(source), "-o", objects[-1]])[0]
    return total + cpu_seconds([*compiler, *objects, "-o", str(out / "requests"), "-lpthread"])[0]


def run(program, arguments, quantum, record):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CURTAIL_")}
    if quantum:
        environment |= {"CURTAIL_TIMING": quantum, "CURTAIL_TIMING_OUT": str(record)}
    core = max(os.sched_getaffinity(0))

    def pin():
        os.sched_setaffinity(0, {core})

    return cpu_seconds([str(program), *arguments], env=environment, preexec_fn=pin)


def overhead(times, variant):
    ratios = [a / b for a, b in zip(times[variant], times["none"])]
    quickest = min(times[variant]) / min(times["none"])
    return 100 * (quickest - 1), 100 * (statistics.median(ratios) - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("tools", "source", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quantum", default="2us")
    options = parser.parse_args()
    work = options.out / "leveldb"

    compiles = {kind: [] for kind in KINDS}
    for _ in range(3):
        for kind in random.sample(KINDS, len(KINDS)):
            compiles[kind].append(compile_all(options.tools, options.source, kind, work / kind))
    least = {kind: min(times) for kind, times in compiles.items()}
    ratio = least["clock"] / least["none"]
    print(
        f"compile and link, CPU time: {least['none']:.1f} s without safepoints, "
        f"{least['clock']:.1f} s with: {ratio:.2f} times (quickest of 3)\n"
    )

    variants = {"none": ("none", None), "idle": ("clock", None), "armed": ("clock", options.quantum)}
    result = {"compile_s": least, "rounds": options.rounds, "quantum": options.quantum}
    print(f"overhead, %: quickest of {options.rounds} rounds | median of ratios")
    for name, arguments in WORK.items():
        times, printed, record = {v: [] for v in variants}, set(), work / "timing.json"
        for _ in range(options.rounds):
            for variant in random.sample(list(variants), len(variants)):
                kind, quantum = variants[variant]
                took, said = run(work / kind / "requests", arguments, quantum, record)
                times[variant].append(took)
                printed.add(said)
        if len(printed) != 1:
            sys.exit(f"{name}: builds print different things: {printed}")
        intervals = json.loads(record.read_text())
        figures = {v: overhead(times, v) for v in ("idle", "armed")}
        print(
            f"{name:5} idle {figures['idle'][0]:5.1f} | {figures['idle'][1]:5.1f}"
            f"   armed {figures['armed'][0]:5.1f} | {figures['armed'][1]:5.1f}"
            f"   intervals, of {intervals['quantum_cycles']} cycles: MAE {intervals['interval_mae']:.0f},"
            f" p50 {intervals['interval_p50']}, p99 {intervals['interval_p99']}"
        )
        result[name] = {"cpu_s": times, "overhead_percent": figures, "intervals": intervals}
    (options.out / "leveldb.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
