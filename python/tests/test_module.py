"""What the module does beside the command's work."""

import json

import curtail_sim as cs
import pytest


def test_results_depend_on_the_seed_and_on_nothing_else():
    points = cs.grid(policy=["fcfs", "tq", "darc"], workers=4, load=[0.3, 0.8], seed=[1, 2], jobs=10_000)
    runs = cs.sweep(points, threads=1)
    assert runs == cs.sweep(points, threads=7) == [cs.simulate(**point) for point in points]
    first, second = (run["sojourn_ns"]["mean"] for run in runs[:2])
    assert first != second


def test_points_are_combined_as_they_are_written():
    points = cs.grid(policy=["tq", "fcfs"], quantum=["1us", 5_000], load=(0.1, 0.2), workers=2)
    shown = [(point["policy"], point["quantum"], point["load"]) for point in points]
    assert shown == [
        *(("tq", "1us", 0.1), ("tq", "1us", 0.2), ("tq", 5_000, 0.1), ("tq", 5_000, 0.2)),
        *(("fcfs", "1us", 0.1), ("fcfs", "1us", 0.2)),
    ]
    assert cs.sweep([]) == []
    run, other = cs.sweep([{"load": 0.1}, {"load": 0.2, "workers": 2}], workers=3, jobs=1_000)
    assert (run["workers"], run["load"], other["workers"], other["load"]) == (3, 0.1, 2, 0.2)


def test_classes_may_be_a_list():
    text = cs.simulate(classes="a:1us:3,b:uniform(1us..3us):1", jobs=1_000)
    assert cs.simulate(classes=[("a", 1_000, 3), ("b", "uniform(1us..3us)", 1)], jobs=1_000) == text
    assert [one["name"] for one in text["classes"]] == ["a", "b"]


def test_costs_are_there_to_be_changed():
    ideal = cs.costs()
    plain = cs.simulate(jobs=5_000)
    assert cs.simulate(jobs=5_000, costs=ideal) == plain
    dear = cs.simulate(jobs=5_000, costs={**ideal, "ring": "1us"})
    assert dear["sojourn_ns"]["p50"] >= plain["sojourn_ns"]["p50"] + 1_000


def test_progress_is_told_and_may_end_it():
    told = []
    cs.sweep(seed=range(1, 30), jobs=1_000, threads=2, progress=lambda *so_far: told.append(so_far))
    assert told[-1] == (29, 29) and told == sorted(set(told))

    def enough(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        # Had it gone on, it would have for years.
        cs.sweep([{"jobs": 100}, {"jobs": 10**14}], threads=1, progress=enough)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(policy="nope"), "unknown policy `nope`"),
        (dict(quantum="2parsecs"), "quantum: `2parsecs`"),
        (dict(quantum=0), "quantum"),
        (dict(quantum=1.5), "quantum: 1.5"),
        (dict(workers=0), "workers: 0"),
        (dict(workers=5_000), "5000 workers"),
        (dict(load=70), "0.7 rather than 70"),
        (dict(load=float("nan")), "float"),
        (dict(load=[0.1, 0.2]), "load: "),
        (dict(load=0.5, rate="5k"), "load and rate"),
        (dict(workload="tpcc", classes="a:1us:1"), "workload and classes"),
        (dict(trace="x", arrivals="poisson"), "trace and arrivals"),
        (dict(jobs=5, duration="1s"), "jobs and duration"),
        (dict(jobs=0), "jobs: 0"),
        (dict(duration="1s", warmup="2s"), "warmup must be shorter than duration"),
        (dict(phases="persephone", rate="5k"), "phases have loads, say load"),
        (dict(classes="a:0:1"), "with rate"),
        (dict(classes=[("a", "1us")]), "is no class"),
        (dict(trace="/no/such/file"), "cannot read /no/such/file"),
        (dict(costs="/no/such/file"), "cannot read /no/such/file"),
        (dict(costs={"swich": 1}), "unknown field `swich`"),
        (dict(costs={"ring": -1}), "`-1ns`"),
        (dict(policy="fcfs", reserved=1), "reserved is not an option of policy `fcfs`"),
        (dict(pinned="yes"), "pinned"),
        (dict(preempt="maybe"), "preempt: unknown"),
        (dict(seed=-1), "seed: -1"),
        (dict(seed=2**64), "seed: "),
        (dict(weights="1,x"), "weights: "),
        (dict(profile="guessed"), "profile: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_told_in_a_sentence(options, says):
    with pytest.raises(ValueError) as error:
        cs.simulate(**options)
    assert says in str(error.value) and "--" not in str(error.value)


def test_bad_calls_are_told_too():
    for wrong, says in [
        (lambda: cs.sweep(load=[]), "load: an empty list"),
        (lambda: cs.sweep(load=[0.1], threads=0), "threads"),
        (lambda: cs.sweep(load="0.9..0.1/0.1"), "backwards"),
        (lambda: cs.find_max("p99 fast 3"), "slo: `p99 fast 3`"),
        (lambda: cs.find_max("x: p99 slowdown 3"), "no class `x`"),
        (lambda: cs.find_max("p99 slowdown 3", load=0.3), "chooses the loads itself"),
    ]:
        with pytest.raises(ValueError) as error:
            wrong()
        assert says in str(error.value)
    for wrong in [lambda: cs.sweep(polcy="tq"), lambda: cs.simulate(costs={"ring": object()})]:
        with pytest.raises(TypeError):
            wrong()


def test_a_bad_point_stops_a_sweep_before_it_starts():
    told = []
    with pytest.raises(ValueError, match="nope"):
        cs.sweep([{"jobs": 100}, {"policy": "nope"}], progress=lambda *it: told.append(it))
    assert told == []


def test_rows_are_flat_and_alike():
    runs = cs.sweep(policy=["fcfs", "tq"], load=[0.2, 0.5], jobs=1_000)
    runs.append(cs.simulate(jobs=1, load=0.1))
    table, classes = cs.rows(runs), cs.rows(runs, by_class=True)
    assert (len(table), len(classes)) == (5, 10)
    for rows in (table, classes):
        assert all(row.keys() == rows[0].keys() for row in rows)
        assert all(not isinstance(value, (dict, list)) for row in rows for value in row.values())
    assert table[3]["slowdown_p99_9"] == runs[3]["slowdown"]["p99_9"]
    assert table[3]["cpu_app"] == runs[3]["cpu"]["app"]
    assert [row["class"] for row in classes[:2]] == ["short", "long"]
    assert classes[0]["sojourn_ns_p99"] == runs[0]["classes"][0]["sojourn_ns"]["p99"]


def test_pandas_takes_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(cs.rows(cs.sweep(load=pandas.Series([0.2, 0.4]), jobs=1_000)))
    assert list(frame["load"]) == [0.2, 0.4] and frame["sojourn_ns_p99"].notna().all()


def test_the_stub_and_the_options_are_those_of_the_code():
    assert json.dumps(sorted(cs.simulate.__annotations__.keys() - {"return"})) == json.dumps(
        sorted(cs.Options.__annotations__)
    )
    native = {name for name in dir(cs._native) if not name.startswith("_")}
    stub = (cs.__file__.rpartition("__init__")[0]) + "_native.pyi"
    with open(stub, encoding="utf-8") as text:
        heads = (line.split() for line in text if line.startswith(("def ", "class ")))
        declared = {head[1].split("(")[0].rstrip(":") for head in heads}
    assert native == declared
