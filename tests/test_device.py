"""The tests of device_steps.py, in a process of their own.

Torch's engine counts the kinds of devices at the first backward pass of a process: a device that is
registered later has no queue.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)]
)
def test_steps_on_a_simulated_device(which, pytestconfig, tmp_path):
    file = Path(__file__).with_name("device_steps.py")
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest"]
    command += ["-p", "no:cacheprovider", "--basetemp", str(tmp_path / "steps")]
    filters = "\n".join(pytestconfig.getini("filterwarnings"))
    command += ["--override-ini", f"filterwarnings={filters}"]
    done = subprocess.run(
        [*command, "-m", which, str(file)],
        check=False,
        capture_output=True,
        text=True,
        cwd=file.parents[1],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    if "passed" not in done.stdout:
        pytest.skip(done.stdout.splitlines()[-1])
