"""What the processes of a trainer tell each other, and work that each does a share of."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from flowbert.progress import tracked

T = TypeVar("T")


def exchanged(trainer: Any, mine: T) -> Iterator[T]:
    """What each process has, in the order of their ranks, one at a time; every process must go to the end.

    Args:
        trainer: Lightning's Trainer, whose strategy sends it.
        mine: What this process has.
    """
    if trainer.world_size == 1:
        yield mine
        return
    for source in range(trainer.world_size):
        yield trainer.strategy.broadcast(mine, source)


def embed_shared(trainer: Any, sentences: Sequence[str], embed: Callable[[list[str]], Tensor]) -> Tensor:
    """Embeddings that the processes compute together, each for its share, and gather by index: ``(N, D)``.

    The sentences are dealt out in the order of their lengths, so that the shares take equally long. None is computed
    twice, whatever the number of processes; fewer sentences than processes are computed by each.

    Args:
        trainer: Lightning's Trainer.
        sentences: N sentences, the same in all processes.
        embed: From n sentences to embeddings ``(n, D)`` on the CPU.
    """
    processes = trainer.world_size
    if not 1 < processes <= len(sentences):
        return embed(list(sentences))
    order = torch.tensor(sorted(range(len(sentences)), key=lambda i: (len(sentences[i]), sentences[i])))
    mine = embed([sentences[i] for i in order[trainer.global_rank :: processes].tolist()])
    result = torch.empty(len(sentences), mine.shape[1], dtype=mine.dtype)
    for source, rows in enumerate(exchanged(trainer, mine)):
        result[order[source::processes]] = rows
    return result


def dealt(trainer: Any, works: Sequence[Callable[[], T]], what: str) -> list[T]:
    """Results of some works, of which each process does every W-th one; all processes have all results, in order.

    Args:
        trainer: Lightning's Trainer, with W processes.
        works: The works, the same in all processes.
        what: What is done, for the bar of the first process.
    """
    mine = [work() for work in tracked(works[trainer.global_rank :: trainer.world_size], what, "figures")]
    results: dict[int, T] = {}
    for source, found in enumerate(exchanged(trainer, mine)):
        results |= dict(zip(range(source, len(works), trainer.world_size), found, strict=True))
    return [results[number] for number in range(len(works))]


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
