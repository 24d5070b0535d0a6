"""Fixtures that all tests share."""

import copy
import gc
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest


def pytest_configure(config):
    """One cache of embeddings for all tests, and pages only in tests that set FLOWBERT_REPORT."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # workers inherit the environment
    folder = tempfile.mkdtemp(prefix="flowbert-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["FLOWBERT_CACHE"] = folder
    os.environ["FLOWBERT_REPORT"] = "0"


def pytest_collectstart():
    """What is imported stays: the garbage collector need not walk it again and again."""
    gc.disable()


def pytest_collection_modifyitems(items):
    """The test of a device is first: a fork of a process without a backward pass."""
    items.sort(key=lambda item: not item.name.startswith("test_steps_on_a_simulated"))


def pytest_collection_finish():
    """The rest is collected as ever."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _seed():
    """Draws of torch do not depend on the tests that ran before."""
    import torch

    torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _quick():
    """Nothing waits for the disk, as no test survives a power cut, or imports wandb's jobs.

    The network of the sample is read once; each encoder has a copy, and draws nothing.
    """
    import torch
    from transformers import AutoModel

    from flowbert.data.sample import sample_encoder_path

    load, sample = AutoModel.from_pretrained, str(sample_encoder_path())

    @cache
    def read(**options):
        with torch.random.fork_rng():
            return load(sample, **options)

    def from_pretrained(source, **options):
        if str(source) == sample and "output_loading_info" in options:
            del options["config"]
            return copy.deepcopy(read(**options))
        return load(source, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setitem(sys.modules, "wandb.sdk.launch.inputs.internal", None)
        patch.setattr(AutoModel, "from_pretrained", from_pretrained)
        yield


@pytest.fixture(scope="session")
def registries():
    """Imported by the workers alone, not by the process that waits for them."""
    from flowbert.encoders.pooling import POOLINGS
    from flowbert.extras.analysis import MEASURES, VIEWS
    from flowbert.extras.export.formats import EXPORT_FORMATS
    from flowbert.flows.coupling import COUPLINGS
    from flowbert.flows.mixing import MIXINGS
    from flowbert.maps import MAPS
    from flowbert.methods.losses import LOSSES
    from flowbert.tasks import TASKS

    encoders = [POOLINGS, MEASURES, VIEWS, TASKS, LOSSES]
    return [*encoders, MAPS, COUPLINGS, MIXINGS, EXPORT_FORMATS]


@pytest.fixture(autouse=True)
def _custom_parts(registries):
    """Remove what a test registers, and the examples that it imports."""
    before = [dict(registry) for registry in registries]
    yield
    for registry, registered in zip(registries, before, strict=True):
        registry.clear()
        registry.update(registered)
    for name in [name for name in sys.modules if name.startswith("examples")]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _wandb_run_of_test():
    """A run that a test leaves open, or its settings, would be those of the next one."""
    yield
    wandb = sys.modules.get("wandb")
    if wandb is not None:
        if wandb.run is not None:
            wandb.finish()
        wandb.teardown()


@pytest.fixture
def one_thread():
    """OpenMP's threads do not survive a fork."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def real():
    """Folder with real data and encoders; the test is skipped where there is none."""
    folder = os.environ.get("FLOWBERT_REAL")
    if folder is None or not Path(folder).is_dir():
        pytest.skip(
            "needs real data: FLOWBERT_REAL is not set to a folder with models/ and data/"
        )
    return Path(folder)
