"""DNS servers as processes: apps/dns, knot, gdnsd, each with one zone and on one core."""

import contextlib
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 15

KNOT = """
server:
    listen: 127.0.0.1@{port}
    rundir: "{place}"
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "{place}"
log:
  - target: stderr
    any: warning
zone:
  - domain: {name}
    file: "{file}"
    zonefile-sync: -1
    journal-content: none
"""

GDNSD = """
options => {{
    listen => 127.0.0.1:{port}
    run_dir => {place}/run
    state_dir => {place}/state
    zones_default_ttl => 3600
    udp_threads => 1
    tcp_threads => 1
    http_listen => []
}}
"""


def free_port():
    """One that nothing listens at, for datagrams and connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def answers(port, name):
    """Whether something at the port has the zone."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = bytes.fromhex("04d200000001000000000000") + labels + bytes.fromhex("0000060001")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.2)
        try:
            client.connect(("127.0.0.1", port))
            client.send(query)
            answer = client.recv(4096)
        except OSError:
            return False
    return answer[:2] == query[:2] and answer[3] & 15 == 0


def command(kind, port, name, file, place, program, options):
    """What starts a server of that kind."""
    if kind == "knot":
        (place / "knot.conf").write_text(KNOT.format(port=port, place=place, name=name, file=file))
        return ["knotd", "-c", str(place / "knot.conf")]
    if kind == "gdnsd":
        (place / "zones").mkdir()
        (place / "zones" / name).write_bytes(file.read_bytes())
        (place / "config").write_text(GDNSD.format(port=port, place=place))
        return ["gdnsd", "-c", str(place), "start"]
    listen = ["--listen", f"127.0.0.1:{port}", "--zone", f"{name}={file}"]
    return [str(program), *listen, "--workers", "1", *options]


@contextlib.contextmanager
def running(kind, name, file, program=None, options=(), core=None):
    """A server with the zone `name` of `file`, from when it answers to its end: its port and process."""
    with tempfile.TemporaryDirectory() as folder:
        place, port = pathlib.Path(folder), free_port()
        words = command(kind, port, name, file, place, program, options)
        if core is not None:
            words = ["taskset", "-c", str(core), *words]
        with open(place / "said", "w+", encoding="utf-8") as said:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
            process = subprocess.Popen(words, **quiet)
            try:
                until = time.monotonic() + LONGEST
                while not answers(port, name):
                    if time.monotonic() > until or process.poll() is not None:
                        said.seek(0)
                        sys.exit(f"{kind} does not answer: {said.read()}")
                yield port, process
            finally:
                end(process)


def end(process):
    """Has it end, by its own way if it will."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
