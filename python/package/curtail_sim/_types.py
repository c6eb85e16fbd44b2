"""Types of arguments and results; nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Dict, List, Optional, Tuple, TypedDict, Union

#: Whole nanoseconds, or text with a unit: ``2000``, ``"2us"``, ``"1.5ms"``.
Duration = Union[int, str]
#: Name, service time, share: ``("short", "0.5us", 99.5)``. The service time is a `Duration`, or
#: text like ``"exp(1us)"`` and ``"uniform(1us..3us)"``.
ClassOf = Tuple[str, Duration, float]


class Options(TypedDict, total=False):
    """The keyword arguments of `simulate`, where they are handed on."""

    policy: str
    workers: int
    quantum: Optional[Duration]
    load: Union[None, float, str]
    rate: Union[None, float, str]
    workload: Optional[str]
    classes: Union[None, str, Sequence[ClassOf]]
    phases: Union[None, str, Sequence[str]]
    trace: Any
    arrivals: Optional[str]
    classifier: Optional[str]
    jobs: Optional[int]
    duration: Optional[Duration]
    warmup: Optional[Duration]
    seed: int
    costs: Union[None, str, Mapping[str, Union[int, float, str]]]
    dispatchers: Optional[int]
    balance: Optional[str]
    flows: Optional[int]
    hot_flows: Optional[str]
    capacity: Optional[int]
    pinned: Optional[bool]
    hints: Optional[str]
    preempt: Optional[str]
    jbsq: Optional[int]
    ties: Optional[str]
    core: Optional[str]
    victim: Optional[str]
    work_conserving: Optional[bool]
    preemptive: Optional[bool]
    reserved: Optional[int]
    weights: Union[None, str, Sequence[int]]
    priorities: Union[None, str, Sequence[int]]
    deadlines: Union[None, str, Sequence[Duration]]
    queue_bounds: Union[None, str, Sequence[int]]
    delta: Optional[float]
    profile_window: Optional[int]
    profile_slowdown: Optional[int]
    profile_deviation: Optional[int]
    spillway: Optional[int]
    profile: Optional[str]


class Quantiles(TypedDict, total=False):
    """Of times, in nanoseconds (whole but for the mean). Empty: of no requests."""

    p50: int
    p90: int
    p99: int
    p99_9: int
    max: int
    mean: float


class Slowdown(TypedDict, total=False):
    """Of slowdowns, without a unit. Empty: of no requests."""

    p50: float
    p99: float
    p99_9: float
    max: float
    mean: float


class ClassResult(TypedDict, total=False):
    """One class of requests."""

    name: str
    count: int
    dropped: int
    service_ns_mean: float
    sojourn_ns: Quantiles
    slowdown: Slowdown


class Run(TypedDict, total=False):
    """One run, as `curtail sim --json` writes it."""

    schema: int
    verb: str
    policy: str
    preempt: str
    quantum_ns: Optional[int]
    workers: int
    workload: str
    offered_rps: float
    achieved_rps: float
    load: Optional[float]
    duration_s: float
    offered: int
    completed: int
    dropped: int
    valid: bool
    invalid_reason: Optional[str]
    seed: int
    sojourn_ns: Quantiles
    slowdown: Slowdown
    classes: List[ClassResult]
    preemptions: int
    #: What the policy had decided for itself in the end, where it decides something.
    decided: str
    preempt_late_ns: Dict[str, int]
    cpu: Dict[str, float]
    noise: Dict[str, float]
    undisturbed: Dict[str, Any]
    machine: Dict[str, Any]


class Found(TypedDict):
    """What `find_max` found."""

    slo: str
    policy: str
    #: The highest load found to meet the objective; ``None``: not even 0.01 does.
    max_load: Optional[float]
    #: The lowest load found not to meet it; ``None``: even 1 does.
    fails_at: Optional[float]
    #: `max_load` in requests per second.
    max_rps: Optional[float]
    #: Every run of the search, in order.
    runs: List[Run]


class Policy(TypedDict):
    """A policy."""

    name: str
    aliases: List[str]
    preempt: str
    quantum_ns: Optional[int]
    about: str
    source: str


class Workload(TypedDict):
    """A workload."""

    name: str
    about: str
    source: str
    service_ns_mean: float
    classes: List[Dict[str, Any]]
