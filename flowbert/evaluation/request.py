"""What a user asks to compare, as plain values, and the tasks, corpora and labelled pairs that it stands for."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import torch

from flowbert.data.corpus import NAMED, Corpus, load_corpus, sentences_digest
from flowbert.data.files import as_list
from flowbert.data.hub import hub_name
from flowbert.data.nli import BUILTIN
from flowbert.data.sts import STSTask, Subset, is_table
from flowbert.encoders.counting import Counted, choose_counted, saved_counts
from flowbert.errors import UserError
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.results import fingerprint
from flowbert.methods import Method, parse_methods
from flowbert.methods.registry import FIT_HERE
from flowbert.tasks import Task
from flowbert.vectors import VectorCorpus, VectorTable

Number = TypeVar("Number", int, float)
Names = str | list[str]
Methods = str | list[str | list[str]]


def as_numbers(value: str | Number | Sequence[Number], argument: str, kind: type[Number]) -> list[Number]:
    """Numbers of a list, of a comma-separated text, or a single one; each once.

    Raises:
        UserError: If there is none, or one is no number of this kind.

    Example:
        >>> as_numbers("0,1,2", "seeds", int), as_numbers(3, "seeds", int)
        ([0, 1, 2], [3])
    """
    items = value.strip("[]").split(",") if isinstance(value, str) else value
    try:
        numbers = list(dict.fromkeys(map(kind, items if isinstance(items, Sequence) else [items])))
    except ValueError:
        numbers = []
    if not numbers:
        raise UserError(f"{argument}: received {value!r}; allowed: numbers ({kind.__name__}), comma-separated")
    return numbers


def score_limits(value: str | Sequence[float] | None) -> tuple[float, float] | None:
    """Lowest and highest score of files of own pairs, if they are said.

    Raises:
        UserError: If these are not two numbers in their order.
    """
    if value is None:
        return None
    limits = as_numbers(value, "score_range", float)
    if len(limits) != 2 or not limits[0] < limits[1]:
        raise UserError(f"score_range: received {value}; allowed: lowest,highest, e.g. 0,5")
    return limits[0], limits[1]


def corpus_names(value: Names) -> list[str]:
    """Several corpora from a list, or from a text if it holds names only: paths may be parted by commas, too.

    Example:
        >>> corpus_names("target,nli"), corpus_names("a.txt,b.txt")
        (['target', 'nli'], ['a.txt,b.txt'])
    """
    names = as_list(value, "corpus")
    named = all(name in (*NAMED, "builtin-sample") or name.startswith("hub:") for name in names)
    return names if named or not isinstance(value, str) else [value]


def corpus_loader(
    nli: str = "hub", column: str | None = None, max_sentences: int | None = None, seed: int = 0
) -> Callable[[str, Task], Corpus]:
    """Loader of the corpus of a name for a task; each is loaded once.

    Args:
        nli: Where the NLI pairs are.
        column: Column of the sentences in table files.
        max_sentences: Draw so many sentences of a larger corpus.
        seed: Seed of that draw.
    """
    shared = cache(partial(load_corpus, nli=nli, column=column))

    @cache
    def load(name: str, task: Task) -> Corpus:
        corpus = task.corpus(name) if name in ("target", "train_only") else shared(name)
        return corpus if max_sentences is None else corpus.sample(max_sentences, seed)

    return load


def vector_corpus_loader(
    table: VectorTable, column: str | None = None, max_sentences: int | None = None, seed: int = 0
) -> Callable[[str, Task], Corpus]:
    """Loader of the rows to fit on by the name of a corpus: ``target``, all of a table, or another file of vectors.

    Args:
        table: The vectors.
        column: Column of the other file.
        max_sentences: Draw so many rows of more.
        seed: Seed of that draw.
    """

    @cache
    def load(name: str) -> Corpus:
        if name in (*NAMED[1:], BUILTIN) or hub_name(name) is not None:
            raise UserError(f"corpus: received {name!r}; allowed with vectors: target (all rows), or a file of others")
        found = table if name == NAMED[0] else VectorTable.open(name, column)
        if found.dim != table.dim:
            raise UserError(
                f"corpus: {name} holds vectors of size {found.dim}; allowed: {table.dim}, as in {table.name}"
            )
        corpus = VectorCorpus.all_of(name, found)
        return corpus if max_sentences is None else corpus.sample(max_sentences, seed)

    return lambda name, _: load(name)


def counted_loader(
    source: str, tasks: Sequence[Task], corpus_of: Callable[[str, Task], Corpus], load: Callable[[str, Task], Corpus]
) -> Callable[[str, Task], Counted]:
    """What token weights are counted over, for the corpus of a name and a task.

    Args:
        source: Word of the option ``counts``, see :func:`flowbert.encoders.counting.choose_counted`.
        tasks: All tasks of the run.
        corpus_of: Loads what is fitted on, by the name of a corpus and a task.
        load: Loads a whole corpus by its name, for a task.
    """
    saved = cache(saved_counts)  # the hub is asked once, not for every corpus and task

    @cache
    def counted(corpus: str, task: Task) -> Counted:
        return choose_counted(
            source,
            lambda: corpus_of(corpus, task),
            lambda: (text for each in tasks for text in each.sentences()),
            lambda name: load(name, task),
            saved,
        )

    return counted


def methods_of(
    methods: Methods, flow: str | None, device: str | torch.device, given: str | None = None
) -> list[Method]:
    """Methods by name; a list among them is a composition.

    Args:
        methods: The names.
        flow: Run folder of a trained flow, or ``fit``.
        device: Where flows are fitted.
        given: Run folder of a calibration.

    Raises:
        UserError: If a name or an option is unknown, or no method is what a run folder is for.
    """
    names = methods if isinstance(methods, str) else [m if isinstance(m, str) else "+".join(m) for m in methods]
    found = parse_methods(as_list(names, "methods"), flow, torch.device(device), given)
    for argument, folder in (("flow", flow), ("given", given)):
        if folder not in (None, FIT_HERE) and not any(method.name.startswith(argument) for method in found):
            allowed = f"with methods {', '.join(method.name for method in found)}: none, or {argument} among them"
            raise UserError(f"{argument}: received {folder}; allowed {allowed}")
    return found


def run_fingerprint(cells: Sequence[Cell], device: str | torch.device) -> dict[str, Any]:
    """Fingerprint of a run over these cells."""
    seed = next((cell.seed for cell in cells if cell.seed is not None), None)
    settings = {"settings": [cell.setting for cell in cells]}
    corpora = dict.fromkeys(cell.corpus.digest for cell in cells if cell.corpus is not None)
    return fingerprint(settings, corpus_hash=sentences_digest(corpora), device=device, seed=seed)


def labels_loader(source: str | None, load: Callable[[str], STSTask]) -> Callable[[Task], Sequence[Subset]]:
    """Labelled pairs that supervised methods learn from: those of ``source`` for all tasks, or each task's own.

    Raises:
        UserError: If ``source`` is a task without a train split.
    """
    if source is None:
        return lambda task: task.labelled()
    labelled = load(source)
    split = "test" if is_table(source) else "train"  # a file of pairs has one split, whatever its name
    if split not in labelled.splits:
        raise UserError(
            f"labels: task {labelled.name} has no train split; allowed: a task that has one, or a file of pairs"
        )
    return lambda _: labelled.splits[split]
