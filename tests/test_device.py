"""The tests of device_steps.py, in a process of their own.

Torch's engine counts the kinds of devices at the first backward pass of a process: a device that is
registered later has no queue. The process is a fork, as none was here before it (conftest.py).
"""

import os
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

from helpers import with_slow


def run(file, output, options):
    """Run tests without plugins; what they print goes into a file."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with output.open("w") as sys.stdout:
        sys.exit(
            pytest.main([str(file), "-q", "--capture=no", "--noconftest", *options])
        )


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("which", with_slow(["not slow", "slow"], ["not slow"]))
def test_steps_on_a_simulated_device(which, pytestconfig, tmp_path):
    filters = "\n".join(pytestconfig.getini("filterwarnings"))
    options = ["-p", "no:cacheprovider", "--basetemp", str(tmp_path / "steps")]
    options += ["-m", which, "--override-ini", f"filterwarnings={filters}"]
    file, output = Path(__file__).with_name("device_steps.py"), tmp_path / "output.txt"
    arguments = file, output, options
    process = get_context("fork").Process(target=run, args=arguments)
    process.start()
    process.join()
    printed = output.read_text()
    assert process.exitcode == 0, printed[-8000:]
    if "passed" not in printed:
        pytest.skip(printed.splitlines()[-1])
