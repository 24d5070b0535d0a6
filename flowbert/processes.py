"""Several processes of one run: who this one is, what they tell each other, what each does, and who writes."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, distributed

from flowbert.errors import UserError
from flowbert.progress import tracked

T = TypeVar("T")

_CONNECT = timedelta(minutes=10)
_WAIT = timedelta(days=30)  # for processes that have more to do; one that dies is noticed at once


class Processes(Protocol):
    """The processes of a run as one of them sees them: in a fit its Trainer's strategy, else :func:`current`."""

    @property
    def global_rank(self) -> int:
        """Number of this process, from 0."""

    @property
    def world_size(self) -> int:
        """How many there are."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the first one, which writes."""

    def broadcast(self, obj: T, src: int = 0) -> T:
        """What the process of number ``src`` has; every process must call."""

    def barrier(self, name: str | None = None) -> Any:
        """Wait until every process is here."""


@dataclass(frozen=True)
class Group:
    """The processes that torchrun has started, in a group of torch's; or one alone."""

    global_rank: int = 0
    world_size: int = 1
    group: Any = None

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the first one, which writes."""
        return self.global_rank == 0

    def broadcast(self, obj: T, src: int = 0) -> T:
        """What the process of number ``src`` has; every process must call."""
        held = [obj]
        if self.world_size > 1:
            distributed.broadcast_object_list(held, src, self.group)
        return held[0]

    def barrier(self, name: str | None = None) -> None:
        """Wait until every process is here."""
        if self.world_size > 1:
            distributed.barrier(self.group)


ALONE = Group()
"""One process that shares nothing."""
_CURRENT: ContextVar[Group] = ContextVar("processes", default=ALONE)


class _LeftToFirst(BaseException):
    """The end of a process that is not needed any more."""


class _Terminated(BaseException):
    """What SIGTERM becomes."""


def started() -> Group:
    """The processes of this run as torchrun's environment names them; nothing is connected yet."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    return Group(int(os.environ["RANK"]), world_size) if world_size > 1 and "RANK" in os.environ else ALONE


def current() -> Group:
    """The processes that share the work here: one alone, but for what is called inside of :func:`joined`."""
    return _CURRENT.get()


@contextmanager
def joined() -> Iterator[None]:
    """Share the work inside with the other processes that torchrun has started: all run the same code.

    They are connected by gloo, whatever the device, and end together. On GPUs each has to take its own, see
    :func:`own_gpu`.

    Raises:
        UserError: If they cannot be connected, or another process has ended.
    """
    group = started()
    if group.world_size == 1:
        yield
        return
    with ExitStack() as stack:
        try:
            distributed.init_process_group("gloo", timeout=_CONNECT)
            stack.callback(distributed.destroy_process_group)
            group = replace(group, group=distributed.new_group(timeout=_WAIT))
        except (ValueError, RuntimeError) as error:
            raise UserError(f"processes: {error}; allowed: as torchrun starts them") from error
        try:
            with _sharing_with(group), _sigterm_raised():
                with suppress(_LeftToFirst):
                    yield
                group.barrier()
        except _Terminated:
            raise UserError(
                "processes: ended by SIGTERM, which torchrun sends when another one has ended: see its own message"
            ) from None
        except RuntimeError as error:
            reason = lost_process(error)
            if reason is None:
                raise
            raise UserError(f"{reason}; run again: what is finished stays") from error


def alone() -> AbstractContextManager[None]:
    """Share nothing inside."""
    return _sharing_with(ALONE)


@contextmanager
def _sharing_with(group: Group) -> Iterator[None]:
    token = _CURRENT.set(group)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def own_gpu() -> None:
    """Let each of the processes on a machine compute on a GPU of its own, where there are several."""
    if current().world_size > 1:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def leave_to_first() -> None:
    """Let the first process go on alone: any other one leaves the block of :func:`joined`, and waits for it there."""
    if not current().is_global_zero:
        raise _LeftToFirst
    _CURRENT.set(ALONE)


@contextmanager
def _sigterm_raised() -> Iterator[None]:
    """Let SIGTERM be an error, so that nothing half-written stays."""

    def terminate(*_: Any) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exchanged(processes: Processes, mine: T) -> Iterator[T]:
    """What each process has, in the order of their ranks, one at a time; every process must go to the end."""
    for source in range(processes.world_size):
        yield processes.broadcast(mine, source)


def embed_shared(processes: Processes, sentences: Sequence[str], embed: Callable[[list[str]], Tensor]) -> Tensor:
    """Embeddings that the processes compute together, each for its share, and gather by index: ``(N, D)``.

    The sentences are dealt out in the order of their lengths, so that the shares take equally long. None is computed
    twice, whatever the number of processes; fewer sentences than processes are computed by each.

    Args:
        processes: The processes.
        sentences: N sentences, the same in all processes.
        embed: From n sentences to embeddings ``(n, D)`` on the CPU.
    """
    count = processes.world_size
    if not 1 < count <= len(sentences):
        return embed(list(sentences))
    order = torch.tensor(sorted(range(len(sentences)), key=lambda i: (len(sentences[i]), sentences[i])))
    mine = embed([sentences[i] for i in order[processes.global_rank :: count].tolist()])
    result = torch.empty(len(sentences), mine.shape[1], dtype=mine.dtype)
    for source, rows in enumerate(exchanged(processes, mine)):
        result[order[source::count]] = rows
    return result


def dealt(processes: Processes, works: Sequence[Callable[[], T]], what: str) -> list[T]:
    """Results of some works, of which each process does every W-th one; all processes have all results, in order.

    Args:
        processes: W processes.
        works: The works, the same in all processes.
        what: What is done, for the bar of the first process.
    """
    count = processes.world_size
    mine = [work() for work in tracked(works[processes.global_rank :: count], what, "figures")]
    results: dict[int, T] = {}
    for source, found in enumerate(exchanged(processes, mine)):
        results |= dict(zip(range(source, len(works), count), found, strict=True))
    return [results[number] for number in range(len(works))]


def gathered(processes: Processes, mine: Iterable[T], seconds: float) -> Iterator[T]:
    """What all processes find, while they find it; one alone is given each item at once.

    Every few seconds each process waits until all of them have finished an item, and all are given what was found.

    Args:
        processes: The processes; every one must go to the end.
        mine: Finds the items of this process, one after the other.
        seconds: From one exchange to the next.

    Raises:
        UserError: In all processes, what was raised in one, behind the items that were found before.
    """
    if processes.world_size == 1:
        yield from mine
        return
    items, found_some = iter(mine), True
    while found_some:
        found: list[T] = []
        failure: UserError | None = None
        end = time.monotonic() + seconds
        try:
            for item in items:
                found.append(item)
                if time.monotonic() > end:
                    break
        except UserError as error:
            failure = error
        rounds = list(exchanged(processes, (found, failure)))
        for of_one, _ in rounds:
            yield from of_one
        for _, raised in rounds:
            if raised is not None:
                raise raised
        found_some = any(of_one for of_one, _ in rounds)


def lost_process(error: RuntimeError) -> str | None:
    """What to say of an error of the connection between the processes; None for any other error.

    Example:
        >>> lost_process(RuntimeError("[gloo/pair.cc:553] Closed by peer. Check the logs"))
        'processes: the connection between them failed (Closed by peer); if another one has ended, see its own message'
        >>> lost_process(RuntimeError("shapes cannot be multiplied"))
    """
    known = distributed.is_available() and isinstance(error, distributed.DistError)
    if not (known or "[gloo" in str(error) or "gloo/" in str(error)):  # gloo raises no class of its own
        return None
    why = str(error).splitlines()[0].split("] ", 1)[-1].split(". ")[0]
    return f"processes: the connection between them failed ({why}); if another one has ended, see its own message"
