"""Curtail's simulator for notebooks.

It runs the scheduling policies of Curtail, the very code that serves requests, in virtual time, and
gives what ``curtail sim --json`` writes, as dictionaries::

    import curtail_sim as cs

    run = cs.simulate("tq", workers=16, load=0.7)
    run["slowdown"]["p99_9"]

    runs = cs.sweep(policy=["fcfs", "tq"], workers=16, load="0.1..0.9/0.1")
    pandas.DataFrame(cs.rows(runs))

    cs.find_max("p99.9 slowdown 50", policy="tq", workers=16)["max_load"]

Times are in nanoseconds, rates in requests per second, loads in fractions of what all workers can
do. The same seed gives the same result to the last digit. Simulations run without the interpreter's
lock; the interrupt key ends them with `KeyboardInterrupt`. Bad arguments are a `ValueError` that
says which.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Union

from . import _native
from ._native import __version__
from ._rows import rows
from ._types import ClassOf, Duration, Found, Options, Policy, Run, Workload

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Run",
    "__version__",
    "costs",
    "find_max",
    "grid",
    "loads",
    "policies",
    "rows",
    "simulate",
    "sweep",
    "workloads",
]

Progress = Callable[[int, Optional[int]], object]


def simulate(
    policy: str = "tq",
    *,
    workers: int = 1,
    quantum: Optional[Duration] = None,
    load: Union[None, float, str] = None,
    rate: Union[None, float, str] = None,
    workload: Optional[str] = None,
    classes: Union[None, str, Sequence[ClassOf]] = None,
    phases: Union[None, str, Sequence[str]] = None,
    trace: Union[None, str, os.PathLike[str]] = None,
    arrivals: Optional[str] = None,
    classifier: Optional[str] = None,
    jobs: Optional[int] = None,
    duration: Optional[Duration] = None,
    warmup: Optional[Duration] = None,
    seed: int = 1,
    costs: Union[None, str, Mapping[str, Union[int, float, str]]] = None,
    dispatchers: Optional[int] = None,
    balance: Optional[str] = None,
    flows: Optional[int] = None,
    hot_flows: Optional[str] = None,
    capacity: Optional[int] = None,
    pinned: Optional[bool] = None,
    hints: Optional[str] = None,
    preempt: Optional[str] = None,
    jbsq: Optional[int] = None,
    ties: Optional[str] = None,
    core: Optional[str] = None,
    victim: Optional[str] = None,
    work_conserving: Optional[bool] = None,
    preemptive: Optional[bool] = None,
    reserved: Optional[int] = None,
    weights: Union[None, str, Sequence[int]] = None,
    priorities: Union[None, str, Sequence[int]] = None,
    deadlines: Union[None, str, Sequence[Duration]] = None,
    queue_bounds: Union[None, str, Sequence[int]] = None,
    delta: Optional[float] = None,
    profile_window: Optional[int] = None,
    profile_slowdown: Optional[int] = None,
    profile_deviation: Optional[int] = None,
    spillway: Optional[int] = None,
    profile: Optional[str] = None,
) -> Run:
    """Simulates one run, and gives its result, equal to what ``curtail sim --json`` writes.

    Durations are whole nanoseconds or text with a unit (``"2us"``). What is left out is as the
    command line has it, but for `workers`, which is 1 on every machine.

    What serves:
        policy: Its name; see `policies`.
        workers: How many workers, up to 1,024.
        quantum: How long a request may run while others wait (a duration); the policy's own.
        preempt: ``"auto"`` (as the policy wants it), ``"never"``, ``"flag"``, ``"clock"``,
            ``"signal"``.
        dispatchers, balance, flows, hot_flows: Dispatchers, each with its share of the workers; how
            requests come to them (``"random"``, ``"rss"``, ``"jsq"``, ``"power-of-two"``); how many
            of the flows have how much of the requests, such as ``"2:0.9"``; flows that rss
            tells apart.
        capacity: Requests that each dispatcher's part of the system holds; more are dropped.
        pinned: A request that has started stays on its worker, as in the runtime.
        hints: What policies are told of service times: ``"exact"``, ``"class"`` (means), ``"none"``.
        costs: ``"ideal"``, ``"calibrated"``, a file's name, or a dictionary such as
            ``{"dispatch": 100, "ring": "150ns", "overshoot": "exp(80ns)", "instrumentation": 0.02}``
            (numbers are nanoseconds, but for instrumentation, a fraction); see `costs`.

    What arrives (one of workload, classes, phases and trace):
        workload: A name; see `workloads`. By default ``"extreme-bimodal"``.
        classes: A mix of one's own: ``"short:0.5us:99.5,long:500us:0.5"``, or a list of (name,
            service time, share).
        phases: A workload that changes: a file's name, ``"persephone"``, ``"5s tpcc; 5s exp1"``, or
            a list of phases.
        trace: A file with a line ``arrival,class,service`` (ns) for each request.
        load: Offered load as a fraction of the workers' capacity; by default 0.7.
        rate: Requests per second instead: a number, or ``"1.2M"``.
        arrivals: ``"poisson"``, ``"uniform"``, ``"bursty:PEAK:BURST"``, ``"mmpp:…"``, ``"step:…"``.
        classifier: What says of which class a request is: ``"own"``, ``"random"``.
        jobs: How many requests arrive; by default a million. The first tenth is not counted.
        duration, warmup: How long requests arrive instead, and the part that is not counted
            (durations).
        seed: Of all random numbers.

    What policies do (only those to which it means something take it):
        jbsq: Requests that a worker may hold under a central policy, the running one included.
        ties: Which of equally short queues: ``"msq"``, ``"random"``, ``"power-of-two"``.
        core: What each worker does under a two-level policy: ``"fcfs"``, ``"ps"``, ``"las"``.
        victim: Whom idle workers steal from: ``"random"``, ``"longest"``, ``"oldest"``.
        work_conserving: The dispatcher runs requests itself when every worker is full.
        preemptive: Requests are made to yield.
        reserved: Workers for the shortest class alone.
        weights, priorities, deadlines, queue_bounds: Lists, an item for each class: its share, its
            priority (the lowest first), its deadline (a duration), how many may wait.
        delta, profile_window, profile: DARC's: classes whose mean service times are within this
            factor share workers; completions that a profile is made from; ``"known"``: from the
            start.
        profile_slowdown, profile_deviation, spillway: DARC's: for how many of its mean service times
            a class may queue, and by how many per cent its demand must have changed, for new
            reservations; workers for what has none of its own.

    Raises:
        ValueError: Something does not make sense; the message says what.
        KeyboardInterrupt: The user ended it.
    """
    return _runs([locals()], 1, None)[0]


#: Options of which `sweep` and `grid` take several, in the order in which results come.
SWEPT = ("policy", "quantum", "preempt", "workers", "workload", "load", "rate", "seed")
_POLICY = frozenset(("policy", "quantum", "preempt"))
_OPTIONS = frozenset(simulate.__annotations__) - {"return"}


def sweep(
    points: Optional[Sequence[Mapping[str, Any]]] = None,
    *,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
    **options: Any,
) -> List[Run]:
    """Simulates many runs on many threads, without the interpreter's lock.

    Either every combination of `options` (see `grid`), or each of `points`, dictionaries of
    `simulate`'s arguments; `options` are for all of them then.

    Args:
        threads: Runs at a time; by default as many as there are cores. Results do not depend on it.
        progress: Called now and then with how many runs are done, and how many there are. An
            exception that it raises ends the sweep.

    Returns:
        The results, in the order of the points.
    """
    if points is None:
        points = grid(**options)
    else:
        points = [{**options, **point} for point in points]
    return _runs(points, threads, progress)


def grid(**options: Any) -> List[Dict[str, Any]]:
    """The points of a sweep: every combination of `simulate`'s arguments.

    Of policy, quantum, preempt, workers, workload, load, rate and seed several may be given, as a
    list (or anything that is gone through); loads also as text, ``"0.1..0.9/0.1"``. All others are
    for every point. Quanta and ways to pre-empt are combined only with policies to which they make
    a difference.

    A point is a dictionary to call `simulate` with, here or elsewhere: ``simulate(**point)``.
    """
    if isinstance(options.get("load"), str):
        options["load"] = loads(options["load"])
    points: List[Dict[str, Any]] = [{k: v for k, v in options.items() if k not in SWEPT}]
    for name in SWEPT:
        if name in options:
            values = _several(options[name])
            if not values:
                raise ValueError(f"{name}: an empty list")
            points = [{**point, name: value} for point in points for value in values]
    seen = set()
    kept = []
    for point in points:
        rest = {k: v for k, v in point.items() if k not in _POLICY}
        key = (_native.policy_of(_text(point)), _text(rest))
        if key not in seen:
            seen.add(key)
            kept.append(point)
    return kept


def find_max(
    slo: str,
    *,
    progress: Optional[Progress] = None,
    **options: Unpack[Options],
) -> Found:
    """Searches the highest load at which an objective is met.

    Args:
        slo: The objective: ``"p99.9 slowdown 50"``, ``"short: p99 sojourn 100us"``.
        progress: Called now and then with how many runs are done.
        options: `simulate`'s arguments, without load and rate. A load close to the limit is tried
            up to three times, with seeds from `seed` on.

    Returns:
        max_load, fails_at (between the two it was not looked), max_rps, and all runs.
    """
    return json.loads(_native.find_max(_text(options), slo, progress))


def policies() -> List[Policy]:
    """What policies there are: name, aliases, pre-emption, quantum (ns), about, source."""
    return json.loads(_native.policies())


def workloads() -> List[Workload]:
    """What workloads there are: name, about, source, mean service time (ns), classes."""
    return json.loads(_native.workloads())


def loads(text: str) -> List[float]:
    """The loads that ``"0.1..0.9/0.1"`` or ``"0.3,0.5"`` stands for."""
    return _native.loads(text)


def costs(named: str = "ideal") -> Dict[str, Union[float, str]]:
    """Costs by name (``"ideal"``, ``"calibrated"``) or from a file, as `simulate` takes them: to
    look at, or to change some: ``{**costs("calibrated"), "switch": "50ns"}``."""
    return json.loads(_native.costs(named))


def _runs(
    points: Sequence[Mapping[str, Any]], threads: Optional[int], progress: Optional[Progress]
) -> List[Run]:
    texts = [_text(point) for point in points]
    return [json.loads(run) for run in _native.sweep(texts, threads, progress)]


def _text(options: Mapping[str, Any]) -> str:
    """Options as JSON; those that are ``None`` are not given."""
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"there is no option {name!r}; see curtail_sim.simulate")
    given = {name: value for name, value in options.items() if value is not None}
    return json.dumps(given, default=_plain, allow_nan=False, sort_keys=True)


def _plain(value: Any) -> Any:
    """Paths, and what NumPy and pandas have for numbers and lists."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for convert in ("tolist", "item"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise TypeError(f"{value!r} is no argument of a simulation")


def _several(value: Any) -> List[Any]:
    if value is None or isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return [value]
    return list(value)
