"""A client of servers of Curtail's on the same host, over shared memory.

A server that listens at ``shm:///run/service`` answers::

    import curtail_shm

    with curtail_shm.Client("/run/service") as client:
        client.call(b"one at a time")

        first = client.submit(b"or many at a time")
        for tag, answer in client.answers():
            ...

One thread at a time uses a client; threads have clients of their own. Waiting is done without the
interpreter's lock, and the interrupt key ends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import List, Optional, Tuple, Type, Union

from curtail_sim._native import NoAnswer, ShmSession

__all__ = ["Client", "NoAnswer"]


class Client:
    """A session with the server that listens at ``shm://PATH``.

    Raises `OSError` where no server listens there, or all its sessions are taken.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self._session = ShmSession(os.fspath(path))

    @property
    def most_bytes(self) -> int:
        """The longest request and the longest answer, in bytes."""
        return self._session.most_bytes

    @property
    def under_way(self) -> int:
        """Requests whose answers were not received yet."""
        return self._session.under_way

    def call(self, request: bytes, timeout: Optional[float] = None) -> bytes:
        """Sends a request and waits for its answer.

        Raises `NoAnswer` where there is none, with its `reason`: "silent", "failed", "dropped",
        "cancelled", "too long" or "closed"; `ValueError` for a request that is too long; and
        `TimeoutError` after `timeout` seconds, when the answer may still come by `receive`.
        """
        answer = self._session.call(request, timeout)
        if answer is None:
            raise TimeoutError("no answer in time")
        return answer

    def submit(self, request: bytes) -> Optional[int]:
        """Sends a request and does not wait. Its tag, or `None`: there is no room before others are
        answered.
        """
        return self._session.submit(request)

    def receive(self) -> List[Tuple[int, Union[bytes, NoAnswer]]]:
        """The answers that have come, each with its request's tag. Does not wait.

        Raises `NoAnswer` where the session has ended.
        """
        return self._session.receive()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Sleeps until there is something to receive, or room, or `timeout` seconds have passed."""
        self._session.wait(timeout)

    def answers(self) -> Iterator[Tuple[int, Union[bytes, NoAnswer]]]:
        """The answers to all that is under way, as they come."""
        while self.under_way:
            found = self.receive()
            if not found:
                self.wait()
            yield from found

    def fileno(self) -> int:
        """For `select` and its kin, right after `before_wait`: readable when there is something to
        receive."""
        return self._session.fileno()

    def before_wait(self) -> bool:
        """To be called before a wait for the descriptor: false, there is something already."""
        return self._session.before_wait()

    def close(self) -> None:
        """Ends the session. What is under way is cancelled."""
        self._session.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        self.close()
