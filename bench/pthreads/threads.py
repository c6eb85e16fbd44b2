#!/usr/bin/env python3
"""A program of threads in Python: queues, sockets, events, timers, an executor, a loop that waits."""

import concurrent.futures
import hashlib
import queue
import socket
import threading
import time


def digests(count):
    """Of so many texts, by eight threads."""
    work, done = queue.Queue(), []

    def life():
        while (number := work.get()) is not None:
            done.append(hashlib.sha256(b"x" * 100_000 + str(number).encode()).hexdigest())

    threads = [threading.Thread(target=life) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in [*range(count), *[None] * 8]:
        work.put(number)
    for thread in threads:
        thread.join()
    return hashlib.sha256("".join(sorted(done)).encode()).hexdigest()


def echoes(count):
    """Answers of a server in a thread to so many clients in others."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for _ in range(count):
            client, _ = listener.accept()
            with client:
                client.sendall(client.recv(100).upper())

    def ask(number):
        with socket.create_connection(listener.getsockname()) as server:
            server.sendall(b"abc%d" % number)
            return server.recv(100)

    server = threading.Thread(target=serve)
    server.start()
    with concurrent.futures.ThreadPoolExecutor(10) as executor:
        answers = sorted(executor.map(ask, range(count)))
    server.join()
    return answers[:3]


def wait_in_a_loop():
    """One thread computes until another has slept."""
    flag = []
    threading.Thread(target=lambda: (time.sleep(0.05), flag.append(1))).start()
    while not flag:
        pass
    return flag


print(digests(2_000))
print(echoes(40))
event = threading.Event()
threading.Timer(0.05, event.set).start()
print(event.wait(5), wait_in_a_loop())
