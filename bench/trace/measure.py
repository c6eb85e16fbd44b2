#!/usr/bin/env python3
"""What recording costs (`curtail trace`): the same load without a recorder, with one that is off, on, sent.

    measure.py --program FILE --without FILE --out DIRECTORY [--rounds N] [--requests N] [--yields N]

FILEs are crates/observe/examples/recording.rs, built as usual and without any recorder in the runtime.
Every round runs all ways in turns, in another order each time. A way's cost is the median, over the
rounds, of its time beside the time without a recorder in the same round. Prints a table; JSON goes to
OUT/trace.json.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys

# Name: whether the program has a recorder, what it is to do with it, for people.
WAYS = {
    "none": (False, "off", "without a recorder"),
    "off": (True, "off", "off"),
    "on": (True, "on", "on: taken every 5 ms"),
    "sent": (True, "sent", "on, written as JSON and sent"),
}
LOADS = {"server": "request", "threads": "yield"}
# Of a recorder that is on, beside one that is off, under the server's load.
AIM = 0.03


def run(program, load, recorder, units):
    command = [str(program), load, recorder, str(units)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def cost(rounds, way, base):
    """The median of the rounds' ratios, less one."""
    return statistics.median(one[way]["ns"] / one[base]["ns"] for one in rounds) - 1


def spread(rounds, way, base):
    """The middle half of these ratios, less one."""
    ratios = [one[way]["ns"] / one[base]["ns"] - 1 for one in rounds]
    if len(ratios) < 2:
        return ratios * 2
    quarters = statistics.quantiles(ratios, n=4, method="inclusive")
    return [quarters[0], quarters[2]]


def summary(rounds):
    ways = {}
    for way in WAYS:
        last = rounds[-1][way]
        ways[way] = {
            "ns": statistics.median(one[way]["ns"] for one in rounds),
            "cost": cost(rounds, way, "none"),
            "cost_middle_half": spread(rounds, way, "none"),
            "events_per_unit": last["events"] / last["units"],
            "dropped": sum(one[way]["dropped"] for one in rounds),
        }
    return {
        "ways": ways,
        "on_beside_off": cost(rounds, "on", "off"),
        "on_beside_off_middle_half": spread(rounds, "on", "off"),
        "rounds": rounds,
    }


def table(load, found):
    print(f"\n| {load} | ns a {LOADS[load]} | cost | middle half | events a {LOADS[load]} | lost |")
    print("|---|---:|---:|---:|---:|---:|")
    for way, one in found["ways"].items():
        low, high = one["cost_middle_half"]
        print(
            f"| {WAYS[way][2]} | {one['ns']:,.0f} | {one['cost']:+.1%} | {low:+.1%} to {high:+.1%} | "
            f"{one['events_per_unit']:.2f} | {one['dropped']} |"
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("program", "without", "out"):
        arguments.add_argument(f"--{name}", type=pathlib.Path, required=True)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--requests", type=int, default=400_000, help="of the server, each time")
    arguments.add_argument("--yields", type=int, default=2_000_000, help="of the threads, each time")
    asked = arguments.parse_args()
    if min(asked.rounds, asked.requests, asked.yields) < 1:
        arguments.error("--rounds, --requests and --yields: at least 1")
    units = {"server": asked.requests, "threads": asked.yields}
    dice = random.Random(1)
    rounds = {load: [] for load in LOADS}
    for _ in range(asked.rounds):
        for load in LOADS:
            one = {}
            for way in dice.sample(list(WAYS), len(WAYS)):
                has_recorder, recorder, _ = WAYS[way]
                program = asked.program if has_recorder else asked.without
                one[way] = run(program, load, recorder, units[load])
            rounds[load].append(one)
    loads = {load: summary(of_load) for load, of_load in rounds.items()}
    for load, found in loads.items():
        table(load, found)
    server = loads["server"]["on_beside_off"]
    low, high = loads["server"]["on_beside_off_middle_half"]
    verdict = "within" if high <= AIM else "beyond" if low > AIM else "too noisy to tell from"
    print(
        f"\nrecording costs a server {server:+.1%} beside a recorder that is off "
        f"(middle half {low:+.1%} to {high:+.1%}): {verdict} the aim of {AIM:.0%}, "
        f"{asked.rounds} rounds"
    )
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
    }
    result = {"aim": AIM, "server_cost": server, "loads": loads, "machine": machine}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "trace.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
