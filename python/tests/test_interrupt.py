"""The interrupt key ends a run that would take years, and leaves the module in order."""

import signal
import subprocess
import sys

# A shell that runs the tests in the background may have told its children to ignore the key.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
PROGRAM = """
import curtail_sim as cs

def ready(done, total):
    print("ready", flush=True)

try:
    CALL
except KeyboardInterrupt:
    print("interrupted", cs.simulate(jobs=100)["offered"], flush=True)
"""
ENDLESS = '{"jobs": 100}, {"jobs": 10**14}, {"jobs": 10**14}'


def interrupted(program):
    """What a program prints that is interrupted when it says that it is ready."""
    child = subprocess.Popen([sys.executable, "-c", LISTEN + program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=50)
        return output
    finally:
        child.kill()
        child.wait()


def test_a_sweep():
    for threads in (1, 2):
        call = f"cs.sweep([{ENDLESS}], threads={threads}, progress=ready)"
        assert interrupted(PROGRAM.replace("CALL", call)) == "interrupted 90\n"


def test_other_threads_of_python_run_meanwhile():
    # The thread that interrupts could not, if the simulation had the interpreter's lock.
    program = f"""
import os, signal, threading
import curtail_sim as cs

begun = threading.Event()

def interrupt():
    begun.wait()
    print("ready", flush=True)

threading.Thread(target=interrupt).start()
try:
    cs.sweep([{ENDLESS}], threads=1, progress=lambda *so_far: begun.set())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    assert interrupted(program) == "interrupted\n"
