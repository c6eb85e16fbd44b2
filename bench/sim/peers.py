"""Published simulators beside Curtail's: the same requests, shared by the same number of processors.

    peers.py ciw|simpy WORKERS QUANTUM_NS < REQUESTS

REQUESTS are pairs of 64-bit integers in the machine's byte order, the arrival and the service time
of one request in nanoseconds, in the order of arrival. A line of JSON comes out: CPU seconds of the
simulation alone, events, and the sojourn times' mean and 99th percentile, without the first tenth
of the requests.

ciw shares processors exactly: of n requests each runs at the rate min(1, WORKERS / n). Its events
are arrivals and completions. SimPy has no such node, so it gets the model that Curtail simulates, a
queue from which WORKERS processors take requests for a quantum each; its events are arrivals, ends
of quanta and completions.
"""

import collections
import json
import math
import sys
import time
from array import array


def with_ciw(arrivals, services, workers, quantum_ns):
    import ciw

    gaps = [now - before for before, now in zip([0, *arrivals], arrivals)]
    network = ciw.create_network(
        # No request comes after the last.
        arrival_distributions=[ciw.dists.Sequential([*gaps, math.inf])],
        service_distributions=[ciw.dists.Sequential(services)],
        number_of_servers=[math.inf],
        ps_thresholds=[workers],
    )
    simulation = ciw.Simulation(network, node_class=ciw.PSNode)
    start = time.process_time()
    simulation.simulate_until_max_customers(len(arrivals), method="Complete")
    seconds = time.process_time() - start
    records = sorted(simulation.get_all_records(), key=lambda record: record.arrival_date)
    sojourns = [record.exit_date - record.arrival_date for record in records]
    return seconds, 2 * len(arrivals), sojourns


def with_simpy(arrivals, services, workers, quantum_ns):
    import simpy

    env = simpy.Environment()
    ready = collections.deque()
    idle = []
    sojourns = [None] * len(arrivals)
    ends_of_quanta = 0

    def arrive():
        for at, (arrival, service) in enumerate(zip(arrivals, services)):
            yield env.timeout(arrival - env.now)
            job = [at, service]
            if idle:
                idle.pop().succeed(job)
            else:
                ready.append(job)

    def work():
        nonlocal ends_of_quanta
        while True:
            if ready:
                job = ready.popleft()
            else:
                wake = env.event()
                idle.append(wake)
                job = yield wake
            run = min(quantum_ns, job[1])
            yield env.timeout(run)
            job[1] -= run
            if job[1]:
                ends_of_quanta += 1
                ready.append(job)
            else:
                sojourns[job[0]] = env.now - arrivals[job[0]]

    env.process(arrive())
    for _ in range(workers):
        env.process(work())
    start = time.process_time()
    env.run()
    seconds = time.process_time() - start
    return seconds, 2 * len(arrivals) + ends_of_quanta, sojourns


def main():
    simulate = {"ciw": with_ciw, "simpy": with_simpy}[sys.argv[1]]
    numbers = array("q", sys.stdin.buffer.read())
    arrivals, services = numbers[0::2].tolist(), numbers[1::2].tolist()
    workers, quantum_ns = int(sys.argv[2]), int(sys.argv[3])
    seconds, events, sojourns = simulate(arrivals, services, workers, quantum_ns)
    # A request that never left must not pass for a quick one.
    assert len(sojourns) == len(arrivals) and None not in sojourns, "requests were lost"
    counted = sorted(sojourns[len(sojourns) // 10 :])
    answer = {
        "seconds": seconds,
        "events": events,
        "mean_ns": math.fsum(counted) / len(counted),
        "p99_ns": counted[math.ceil(len(counted) * 0.99) - 1],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
