"""Results as flat rows, for tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Dict, List

from ._types import Run

_OF_RUN = ("policy", "preempt", "quantum_ns", "workers", "workload", "load", "offered_rps", "seed")
_OF_RESULT = (
    *("achieved_rps", "duration_s", "offered", "completed", "dropped", "preemptions"),
    *("valid", "invalid_reason"),
)
_QUANTILES = {
    "sojourn_ns": ("p50", "p90", "p99", "p99_9", "max", "mean"),
    "slowdown": ("p50", "p99", "p99_9", "max", "mean"),
}


def rows(runs: Iterable[Run], *, by_class: bool = False) -> List[Dict[str, Any]]:
    """One flat dictionary for each run, or with `by_class` for each class of each run, all with the
    same keys: ``pandas.DataFrame(rows(runs))``.

    Times are ``sojourn_ns_p50`` … ``sojourn_ns_mean`` in nanoseconds, slowdowns ``slowdown_p50`` …;
    ``None`` where no request completed. Shares of the workers' time are ``cpu_app``, ``cpu_switch``
    and ``cpu_idle``.
    """
    table = []
    for run in runs:
        row = {key: run.get(key) for key in _OF_RUN}
        if not by_class:
            row.update((key, run.get(key)) for key in _OF_RESULT)
            row.update(_quantiles(run))
            cpu = run.get("cpu", {})
            row.update((f"cpu_{key}", cpu.get(key)) for key in ("app", "switch", "idle"))
            table.append(row)
            continue
        for one in run["classes"]:
            of_class = {"class": one["name"], "valid": run.get("valid")}
            of_class.update((key, one.get(key)) for key in ("count", "dropped", "service_ns_mean"))
            table.append({**row, **of_class, **_quantiles(one)})
    return table


def _quantiles(of: Any) -> Dict[str, Any]:
    return {
        f"{figure}_{quantile}": of.get(figure, {}).get(quantile)
        for figure, quantiles in _QUANTILES.items()
        for quantile in quantiles
    }
