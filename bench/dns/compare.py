#!/usr/bin/python3
"""Answers of apps/dns beside knot's, for the queries of apps/dns/tests/queries.txt.

    compare.py --program FILE

Asks both over UDP and TCP, with EDNS and without. Code, flags, answer and authority must be the same, as
sets of records; additional records are counted where they differ: a server chooses them. Ends with 1
where an answer differs that is not in KNOWN.
"""

import argparse
import pathlib
import sys

import dns.flags
import dns.message
import dns.query
import dns.rdatatype
from servers import running

TESTS = pathlib.Path(__file__).resolve().parents[2] / "apps/dns/tests"

# Where both are right, and why.
KNOWN = {
    "AXFR": "a transfer by UDP, or to those who may not: knot says NOTIMP",
    "IXFR": "knot says NOTAUTH",
}


def queries():
    """Names and types of the table of tests, and some whose answers are long."""
    for block in (TESTS / "queries.txt").read_text().split("\n\n"):
        if not block.startswith("#"):
            name, rtype = block.strip().split("\n")[0].split(" ")
            yield name, rtype
    for name, rtype in (("big", "TXT"), ("some.big", "TXT"), ("x.cut.big", "A"), ("mx.big", "MX")):
        yield f"{name}.example.com", rtype


def records(section):
    """A section as a set."""
    sets = ((one.name, one.rdtype, one.ttl, data) for one in section for data in one)
    return {
        (str(name).lower(), dns.rdatatype.to_text(rtype), ttl, str(data)) for name, rtype, ttl, data in sets
    }


def asked(port, name, rtype, tcp, edns):
    """The answer, as what is compared and the additional records."""
    query = dns.message.make_query(name, rtype, use_edns=0 if edns else -1, payload=4096)
    query.flags &= ~dns.flags.RD
    ask = dns.query.tcp if tcp else dns.query.udp
    answer = ask(query, "127.0.0.1", timeout=5, port=port, ignore_trailing=False)
    flags = dns.flags.to_text(answer.flags)
    if answer.flags & dns.flags.TC:
        # What is left of a truncated answer is the server's choice.
        return (answer.rcode(), flags, set(), set()), set()
    main = (answer.rcode(), flags, records(answer.answer), records(answer.authority))
    return main, records(answer.additional)


def main():
    """Compares; prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, type=pathlib.Path)
    options = parser.parse_args()
    zone = ("example.com", TESTS / "example.com.zone")
    same = differ = known = extra = 0
    with running("dns", *zone, options.program) as (ours, _), running("knot", *zone) as (peers, _):
        for name, rtype in queries():
            for tcp in (False, True):
                for edns in (False, True):
                    if rtype in ("AXFR", "IXFR") and tcp:
                        continue
                    (own, more), (peer, others) = (
                        asked(port, name, rtype, tcp, edns) for port in (ours, peers)
                    )
                    if own == peer:
                        same += 1
                        extra += more != others
                    elif rtype in KNOWN:
                        known += 1
                    else:
                        differ += 1
                        print(f"{name} {rtype} tcp={tcp} edns={edns}\n  dns:  {own}\n  knot: {peer}")
    print(f"{same} answers are knot's, {extra} of them with other additional records")
    print(f"{known} differ as is known: {', '.join(KNOWN)}; {differ} differ otherwise")
    sys.exit(differ != 0)


if __name__ == "__main__":
    main()
