"""The client over shared memory, beside a real server."""

import os
import select
import struct
import subprocess

import curtail_shm
import pytest


@pytest.fixture
def server(tmp_path):
    """A server of the application `spin`: the path that it listens at."""
    curtail = os.environ.get("CURTAIL")
    if not curtail:
        pytest.skip("CURTAIL names no command `curtail`")
    path = tmp_path / "service"
    arguments = ["serve", "--app", "spin", "--policy", "fcfs", "--workers", "1", "--preempt", "never"]
    process = subprocess.Popen(
        [curtail, *arguments, "--listen", f"shm://{path}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "shm://" in line:
                break
        else:
            raise AssertionError(f"the server has ended: {lines}")
        yield path, process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def request(number, nanoseconds=1_000):
    """A request of `spin`: its number, and how long it takes."""
    return struct.pack("<QHHI", number, 0, 0, nanoseconds)


def answer_to(number, nanoseconds=1_000):
    """What `spin` answers when that is done."""
    return struct.pack("<QHHI", number, 0, 0, nanoseconds)


def test_calls_are_answered(server):
    path, _ = server
    with curtail_shm.Client(path) as client:
        assert client.most_bytes > 1_000
        for number in range(100):
            assert client.call(request(number)) == answer_to(number)
        assert client.under_way == 0


def test_many_are_under_way(server):
    path, _ = server
    with curtail_shm.Client(path) as client:
        tags = [client.submit(request(number)) for number in range(50)]
        assert len(set(tags)) == 50 and client.under_way == 50
        found = dict(client.answers())
        assert found == {tag: answer_to(number) for number, tag in enumerate(tags)}
        assert client.under_way == 0
        assert client.receive() == []


def test_a_call_between_leaves_the_others_answers(server):
    path, _ = server
    with curtail_shm.Client(path) as client:
        tags = [client.submit(request(number)) for number in range(5)]
        assert client.call(request(5)) == answer_to(5)
        assert set(dict(client.answers())) == set(tags)


def test_the_descriptor_tells(server):
    path, _ = server
    with curtail_shm.Client(path) as client:
        client.submit(request(1, 2_000_000))
        while not (found := client.receive()):
            if client.before_wait():
                ready, _, _ = select.select([client], [], [], 30)
                assert ready, "nothing came"
        assert len(found) == 1


def test_what_can_not_be(server, tmp_path):
    path, process = server
    with pytest.raises(OSError):
        curtail_shm.Client(tmp_path / "nobody")
    client = curtail_shm.Client(path)
    with pytest.raises(ValueError, match="half of the ring"):
        client.submit(b"x" * (client.most_bytes + 1))
    with pytest.raises(ValueError, match="timeout"):
        client.wait(-1)
    with pytest.raises(TypeError):
        client.call("text")
    with pytest.raises(TimeoutError):
        client.call(request(1, 500_000_000), timeout=0.01)
    assert len(list(client.answers())) == 1
    process.terminate()
    process.wait(timeout=30)
    with pytest.raises(curtail_shm.NoAnswer) as error:
        for number in range(10_000):
            client.call(request(number))
    assert error.value.reason == "closed"
    client.close()
    with pytest.raises(curtail_shm.NoAnswer):
        client.call(request(1))
