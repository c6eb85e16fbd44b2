import json
import os
import subprocess

import pytest


@pytest.fixture(scope="session")
def command():
    """`curtail sim --json -` with further arguments: what it writes."""
    curtail = os.environ.get("CURTAIL")
    if not curtail:
        pytest.skip("CURTAIL names no command `curtail` to compare with")

    def run(*arguments, verb="sim"):
        output = subprocess.run(
            [curtail, verb, *arguments, "--json", "-"], capture_output=True, text=True, timeout=60
        )
        # 1 also says that a run is not valid, which is in what it writes.
        assert output.returncode in (0, 1), output.stderr
        written = json.loads(output.stdout)
        runs = written if isinstance(written, list) else [written]
        valid = all(run.get("valid", True) for run in runs)
        assert output.returncode == (0 if valid else 1), output.stderr
        return written

    return run
