"""A simulated accelerator: a device of torch that computes on the CPU.

Torch's PrivateUse1 backend, registered from Python, gives the device; a FakeTensorMode gives its
tensors, and torch's rules of which devices an operation takes. Each fake tensor has its numbers, on
the CPU, so that code which depends on them runs as it would, and results can be compared.
"""

from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from pytorch_lightning.accelerators import CPUAccelerator
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from flowbert.seeding import Stream

NAME = "simulated"
aten = torch.ops.aten

# Of CUDA's autocast, what transformers and this package call.
_IN_LOW_PRECISION = ("matmul", "mm", "bmm", "addmm", "baddbmm", "linear")
_IN_FLOAT32 = ("softmax.int", "log_softmax.int", "layer_norm", "cross_entropy_loss")

_libraries: list[Any] = []


def register():
    """Make the device known to torch, once in a process.

    Skips the test where torch has no such backend.
    """
    if _libraries:
        return
    setup = getattr(
        backend_registration, "_setup_privateuseone_for_python_backend", None
    )
    if setup is None:
        pytest.skip(f"torch {torch.__version__} registers no device from Python")

    class Backend(backend_registration._DummyBackendModule):
        def get_amp_supported_dtype(self):
            return [torch.bfloat16, torch.float16]

        def get_rng_state(self, _device=None):
            return torch.get_rng_state()

        def set_rng_state(self, _state, _device=None):
            """The CPU's is set beside it."""

    setup(NAME, backend_module=Backend())
    library = torch.library.Library
    every, own = library("_", "IMPL"), library("aten", "IMPL")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in (*_IN_LOW_PRECISION, *_IN_FLOAT32):
        _autocast(own, name, name in _IN_LOW_PRECISION)
    _libraries.extend([every, own])


def _autocast(library, name, low):
    keys: Any = torch._C.DispatchKey
    packet, _, overload = name.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")

    def cast(value):
        if isinstance(value, Tensor) and value.dtype in (torch.float32, torch.bfloat16):
            return value.to(torch.get_autocast_dtype(NAME) if low else torch.float32)
        return value

    def kernel(*args, **options):
        key = torch._C.DispatchKeySet(keys.AutocastPrivateUse1)
        with torch._C._ExcludeDispatchKeyGuard(key):
            return function(*tree_map(cast, args), **tree_map(cast, options))

    library.impl(name, kernel, "AutocastPrivateUse1")


class Device(TorchDispatchMode):
    """Inside of it tensors can be made on the device ``simulated``."""

    def __init__(self):
        super().__init__()
        self.device = torch.device(NAME, 0)
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        target = kwargs.get("device")
        if target is not None:
            target = torch.device(target).type
        if _is_composite(func):  # in inference mode they come here as they are
            with self:
                return func.decompose(*args, **kwargs)
        if func is aten._pin_memory.default:
            return args[0].clone()
        if func is aten.is_pinned.default:
            return False
        if FakeTensor not in types and target != NAME:
            return func(*args, **kwargs)
        if func is torch.ops.prim.device.default:
            return self.device
        leaves, structure = tree_flatten((tuple(args), dict(kwargs)))
        placed: list[Any] = [x for x in leaves if isinstance(x, FakeTensor)]
        others = [x for x in leaves if isinstance(x, Tensor) and x.device.type == "cpu"]
        if placed and others and func is not aten.copy_.default:
            self._check(func, leaves, structure)
        numbers, options = tree_unflatten([numbers_of(x) for x in leaves], structure)
        if target is not None:
            options["device"] = torch.device("cpu")
        options.pop("pin_memory", None)
        result = func(*numbers, **options)
        writes_cpu = func is aten.copy_.default and not isinstance(args[0], FakeTensor)
        if target == "cpu" or writes_cpu:
            return result
        changed = {id(x.numbers): x for x in placed}  # by an operation in place
        return tree_map(
            lambda x: changed[id(x)] if id(x) in changed else self._place(x), result
        )

    def _check(self, func, leaves, structure):
        """Torch's rules of the devices of an operation."""
        with self._fake:
            fakes = [self._as_fake(x) for x in leaves]
            args, kwargs = tree_unflatten(fakes, structure)
            func(*args, **kwargs)

    def _as_fake(self, value):
        if isinstance(value, Tensor) and not isinstance(value, FakeTensor):
            return self._fake.from_tensor(value.detach())
        return value

    def _place(self, value):
        """Numbers as a tensor of the device."""
        if not isinstance(value, Tensor):
            return value
        shape, stride = value.shape, value.stride()
        # A view of a plain tensor is one in inference mode, too.
        with torch.inference_mode(False):
            blank = torch.empty_strided(shape, stride, dtype=value.dtype, device="meta")
            placed: Any = FakeTensor(self._fake, blank, self.device)
        placed.numbers = value
        return placed


@cache
def _is_composite(func):
    if func.namespace != "aten":
        return False
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def numbers_of(value):
    """The numbers of a tensor of the device; anything else as it is."""
    return value.numbers if isinstance(value, FakeTensor) else value  # type: ignore[attr-defined]


def _convert(self, function, _recurse=True):
    """What ``Module._apply`` does, for parameters that torch would swap, which fake ones cannot.

    Tied parameters stay tied, as they do on a GPU, where a parameter keeps its identity.
    """
    for child in self.children():
        child._apply(function)
    for name, parameter in self._parameters.items():
        if parameter is None:
            continue
        if id(parameter) not in _converted or _converted[id(parameter)][1] is parameter:
            with torch.no_grad():
                value = function(parameter)
            made = parameter
            if value is not parameter:
                made = nn.Parameter(value, parameter.requires_grad)
            _converted[id(parameter)] = parameter, made
        self._parameters[name] = _converted[id(parameter)][1]
    for name, buffer in self._buffers.items():
        self._buffers[name] = None if buffer is None else function(buffer)
    return self


_converted: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}


class _Accelerator(CPUAccelerator):
    def setup_device(self, device):
        pass


def trainer_options():
    """Options of a Trainer that trains on the device."""
    strategy = SingleDeviceStrategy(device=torch.device(NAME, 0))
    return {"accelerator": _Accelerator(), "strategy": strategy}


@contextmanager
def simulated(monkeypatch):
    """The device; its generators are those of the CPU."""
    register()
    of_cpu = Stream.generator
    monkeypatch.setattr(Stream, "generator", lambda self, _device="cpu": of_cpu(self))
    monkeypatch.setattr(nn.Module, "_apply", _convert)
    _converted.clear()
    # torch.tensor(..., device=) is a copy that a mode sees.
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with Device() as device:
            yield device
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
