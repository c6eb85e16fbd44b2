# %% [markdown]
# A first look at `curtail_sim`. Run it as a program, or cell by cell where `# %%` is understood
# (Jupyter by jupytext, VS Code, Spyder).
#
#     pip install ./python matplotlib
#     python python/examples/first_look.py [PICTURE]

# %%
import os
import sys

import curtail_sim as cs

# Requests of each run.
JOBS = int(os.environ.get("JOBS", 200_000))

# %% [markdown]
# What there is.

# %%
for policy in cs.policies():
    print(f"{policy['name']:18}{policy['about']}")

# %% [markdown]
# One run: 16 workers at load 0.7, 99.5% of the requests take 0.5 µs and 0.5% take 500 µs.

# %%
run = cs.simulate("tq", workers=16, workload="extreme-bimodal", load=0.7, jobs=JOBS)
for one in run["classes"]:
    print(
        f"{one['name']}: p99 sojourn time {one['sojourn_ns']['p99'] / 1e3:.1f} us,"
        f" p99 slowdown {one['slowdown']['p99']:.1f}"
    )

# %% [markdown]
# A sweep, on all cores.

# %%
runs = cs.sweep(policy=["fcfs", "shinjuku", "tq"], workers=16, load="0.1..0.9/0.1", jobs=JOBS)
rows = cs.rows(runs)
print(f"{'policy':10}{'load':>6}{'p99.9 slowdown':>16}")
for row in rows:
    print(f"{row['policy']:10}{row['load']:6.1f}{row['slowdown_p99_9']:16.1f}")

# %% [markdown]
# How much load is possible if p99.9 slowdown is to stay below 50?

# %%
for policy in ("fcfs", "shinjuku", "tq"):
    found = cs.find_max("p99.9 slowdown 50", policy=policy, workers=16, jobs=JOBS)
    print(f"{policy:10}{found['max_load'] or 0:.2f}")

# %% [markdown]
# The curves, where matplotlib is installed.

# %%
try:
    import matplotlib
except ImportError:
    print("no matplotlib, no picture: pip install matplotlib")
else:
    picture = sys.argv[1] if __name__ == "__main__" and sys.argv[1:] else None
    if picture:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for policy in ("fcfs", "shinjuku", "tq"):
        of_policy = [row for row in rows if row["policy"] == policy]
        x, y = ([row[key] for row in of_policy] for key in ("load", "slowdown_p99_9"))
        plt.plot(x, y, marker="o", label=policy)
    plt.yscale("log")
    plt.xlabel("load")
    plt.ylabel("p99.9 slowdown")
    plt.legend()
    if picture:
        plt.savefig(picture)
        print(f"the picture: {picture}")
    else:
        plt.show()
