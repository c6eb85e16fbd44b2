"""Spreads a sweep over the workers of Ray: here a local one, elsewhere a cluster.

    pip install ./python ray
    python python/examples/ray_sweep.py [--cpus 2] [--jobs 400000] [--loads 0.1..0.9/0.1]

Every point is a task: a dictionary of `curtail_sim.simulate`'s arguments goes out, its result comes
back, and as a result depends on nothing but its arguments, it is the one that this process alone
gets. On a cluster `curtail_sim` must be installed on its machines; where `--address` is given, Ray
is that one and is left running.
"""

import argparse
import os
import secrets
import tempfile
import time

import curtail_sim as cs

POLICIES = ["fcfs", "shinjuku", "concord", "tq", "darc"]


def arguments():
    parser = argparse.ArgumentParser(description="A sweep on Ray, compared with one thread.")
    parser.add_argument("--cpus", type=int, default=2, help="of the local Ray")
    parser.add_argument("--address", help="of a Ray that runs already")
    parser.add_argument("--jobs", type=int, default=400_000, help="requests of each run")
    parser.add_argument("--workers", type=int, default=16, help="simulated workers")
    parser.add_argument("--loads", default="0.1..0.9/0.1")
    parser.add_argument("--workload", default="extreme-bimodal")
    return parser.parse_args()


def spread(points):
    """The points' results, by Ray's workers, and how long that took in seconds."""
    import ray

    # One thread a task: Ray counts a core for each.
    simulate = ray.remote(num_cpus=1)(lambda point: cs.simulate(**point))
    # The workers are there, and have loaded the module, before the time is taken.
    cpus = int(ray.cluster_resources()["CPU"])
    ray.get([simulate.remote({**points[0], "jobs": 1_000}) for _ in range(2 * cpus)])
    begin = time.perf_counter()
    runs = ray.get([simulate.remote(point) for point in points])
    return runs, time.perf_counter() - begin


def on_ray(points, cpus, address):
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address:
        import ray

        ray.init(address=address, **quiet)
        try:
            return spread(points)
        finally:
            ray.shutdown()
    # Without a token of its own, Ray makes one and leaves it in the home directory. It also
    # reports its use. Both are settled when it is imported.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    # What Ray writes goes with this directory. (The paths of its sockets must be short.)
    with tempfile.TemporaryDirectory(prefix="ray") as directory:
        ray.init(num_cpus=cpus, include_dashboard=False, _temp_dir=directory, **quiet)
        try:
            return spread(points)
        finally:
            ray.shutdown()


def table(runs):
    """p99.9 slowdown: a line for each load, a column for each policy."""
    figures = {(run["policy"], run["load"]): run["slowdown"]["p99_9"] for run in runs}
    loads = sorted({load for _, load in figures})
    print("p99.9 slowdown".ljust(14), *(policy.rjust(10) for policy in POLICIES))
    for load in loads:
        cells = (f"{figures[policy, load]:10.1f}" for policy in POLICIES)
        print(f"load {load:.2f}".ljust(14), *cells)


def main():
    given = arguments()
    points = cs.grid(
        policy=POLICIES,
        load=given.loads,
        workers=given.workers,
        workload=given.workload,
        jobs=given.jobs,
    )
    spread_runs, spread_s = on_ray(points, given.cpus, given.address)
    begin = time.perf_counter()
    alone = cs.sweep(points, threads=1)
    alone_s = time.perf_counter() - begin
    if spread_runs != alone:
        raise SystemExit("Ray's workers got other results than this process")
    table(spread_runs)
    print(
        f"\n{len(points)} runs of {given.jobs:,} requests: {spread_s:.1f} s on Ray,"
        f" {alone_s:.1f} s on one thread: {alone_s / spread_s:.2f} times as fast; the same results"
    )


if __name__ == "__main__":
    main()
