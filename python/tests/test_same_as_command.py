"""Results are those of `curtail sim --json`, to the last digit."""

import curtail_sim as cs
import pytest

JOBS = ["--jobs", "20000"]
SHORT = "short:1us:9,long:exp(50us):1"


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (dict(policy="tq", workers=4, load=0.7), "--policy tq --workers 4 --load 0.7"),
        (
            dict(policy="concord", workers=3, quantum="5us", rate="200k", seed=7),
            "--policy concord --workers 3 --quantum 5us --rate 200k --seed 7",
        ),
        (
            dict(
                policy="concord",
                workers=8,
                dispatchers=2,
                balance="rss",
                flows=64,
                hot_flows="2:0.6",
                load=0.5,
            ),
            "--policy concord --workers 8 --dispatchers 2 --balance rss --flows 64 --hot-flows 2:0.6 "
            "--load 0.5",
        ),
        (
            dict(policy="edf", deadlines=["10us", 1_000_000], preemptive=True, hints="class"),
            "--policy edf --deadlines 10us,1ms --preemptive true --hints class --workers 1",
        ),
        (
            dict(policy="darc", workers=4, workload="tpcc", profile="known", delta=3, pinned=True),
            "--policy darc --workers 4 --workload tpcc --profile known --delta 3 --pinned",
        ),
        (
            dict(policy="wrr", classes=SHORT, weights=[3, 1], queue_bounds="10,5", load=1.2),
            f"--policy wrr --classes {SHORT} --weights 3,1 --queue-bounds 10,5 --load 1.2 --workers 1",
        ),
        (
            dict(policy="darc", workers=4, classifier="random", arrivals="bursty:4:100us"),
            "--policy darc --workers 4 --classifier random --arrivals bursty:4:100us",
        ),
        (
            dict(policy="shinjuku", jbsq=2, preempt="clock", capacity=100, load=2.0, workers=2),
            "--policy shinjuku --jbsq 2 --preempt clock --capacity 100 --load 2.0 --workers 2",
        ),
        (
            dict(
                policy="concord",
                work_conserving=False,
                costs={"ring": 150, "switch": "40ns", "overshoot": "exp(80ns)", "instrumentation": 0.02},
            ),
            "--policy concord --work-conserving false --ring-delay 150ns --switch-cost 40ns"
            " --overshoot exp(80ns) --instrumentation 0.02 --workers 1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_run(command, options, arguments):
    assert cs.simulate(**options, jobs=20_000) == command(*arguments.split(), *JOBS)


def test_times_phases_and_traces(command, tmp_path):
    timed = cs.simulate("ps", workers=2, duration="20ms", warmup=1_000_000)
    assert timed == command("--policy", "ps", "--workers", "2", "--duration", "20ms", "--warmup", "1ms")
    phases = ["2ms:workload=high-bimodal,load=0.2", "3ms:workload=exp1,load=0.6"]
    changing = cs.simulate("ps", workers=2, phases=phases)
    given = [word for phase in phases for word in ("--phase", phase)]
    assert changing == command("--policy", "ps", "--workers", "2", *given)
    trace = tmp_path / "some.csv"
    lines = (f"{i * 900},{'b' if i % 7 == 0 else 'a'},{2_000 if i % 7 else 300}" for i in range(3_000))
    trace.write_text("\n".join(lines))
    for load, arguments in [(None, []), (0.9, ["--load", "0.9"])]:
        run = cs.simulate("fcfs", workers=2, trace=trace, load=load)
        assert run == command("--policy", "fcfs", "--workers", "2", "--trace", str(trace), *arguments)
        assert (run["workload"], run["offered"]) == ("some.csv", 2_700)


def test_a_sweep_is_the_commands(command):
    runs = cs.sweep(
        policy=["fcfs", "tq"],
        quantum=["1us", "5us"],
        workers=4,
        load="0.3..0.9/0.3",
        seed=[5, 6],
        jobs=20_000,
    )
    arguments = "--policy fcfs,tq --quantum 1us,5us --workers 4 --load 0.3..0.9/0.3 --seed 5 --seeds 2"
    assert runs == command(*arguments.split(), *JOBS)
    # One quantum of `fcfs`, which has none, and two of `tq`.
    assert len(runs) == 3 * 3 * 2


def test_the_highest_load_is_the_commands(command):
    found = cs.find_max("short: p99 sojourn 3us", policy="tq", workers=4, jobs=20_000)
    arguments = ["--policy", "tq", "--workers", "4", "--find-max", "--slo", "short: p99 sojourn 3us"]
    assert found["runs"] == command(*arguments, *JOBS)
    assert 0 < found["max_load"] < found["fails_at"] <= found["max_load"] + 0.011
    loads = [run["load"] for run in found["runs"]]
    assert found["max_load"] in loads and found["fails_at"] in loads
    [highest] = {run["offered_rps"] for run in found["runs"] if run["load"] == found["max_load"]}
    assert found["max_rps"] == highest


def test_lists_are_the_commands(command):
    assert cs.policies() == command(verb="policies")
    assert cs.workloads() == command(verb="workloads")
