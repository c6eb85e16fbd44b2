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
        assert output.returncode == 0, output.stderr
        return json.loads(output.stdout)

    return run
