"""Which sentences token weights are counted over, as an option names them."""

import operator
import re
import warnings
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path

from flowbert.data.corpus import Corpus
from flowbert.data.readers import FORMATS
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.saving import trained_settings
from flowbert.encoders.token_counts import COUNTS_SUFFIX, FITTED_ON, OF_RUN, TokenCounts
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.hub import is_hub_name, split_revision
from flowbert.io.run_folder import RunFolder
from flowbert.processes import ALONE, Processes, exchanged

Counted = Corpus | TokenCounts
"""What is counted, or was."""

_COUNTS_ON_HUB = ("flowbert.*", "model/*.counts", "model/encoder/flowbert.*")


def choose_counted(
    source: str,
    corpus: Callable[[], Corpus],
    run: Callable[[], Iterable[str]],
    load: Callable[[str], Corpus],
    saved: Callable[[str], TokenCounts | None] | None = None,
) -> Counted:
    """What a word of the option ``counts`` stands for.

    Args:
        source: ``corpus`` (what is fitted on), ``run`` (all sentences of the run), a run folder, the folder of an
            encoder that was trained here or the name of one on the hub, a file of counts, or else the name of a corpus.
        corpus: Gives what is fitted on.
        run: Gives all sentences of the run.
        load: Loads a corpus by name.
        saved: Gives counts that were saved, None for none; default: :func:`saved_counts`.

    Raises:
        UserError: If the source is not there or is bad.
    """
    if source == FITTED_ON:
        return corpus()
    if source == OF_RUN:
        return Corpus.of(OF_RUN, run())
    found = (saved or saved_counts)(source)
    if found is not None:
        return found
    try:
        return load(source)
    except UserError as error:
        raise UserError(f"counts: {str(error).removeprefix('corpus: ')}") from error


def weigh_tokens(encoder: SentenceEncoder, counted: Callable[[], Counted], processes: Processes = ALONE) -> None:
    """Give an encoder the token counts that its pooling needs; nothing is counted if it needs none, or has them.

    Args:
        encoder: The encoder.
        counted: Gives what to count.
        processes: Each counts its share; every one must call.
    """
    if not encoder.needs_counts:
        if encoder.counts is None and encoder.count_over not in ("", FITTED_ON):
            message = (
                f"counts: received {encoder.count_over!r}, but pooling {encoder.pooling} weighs no tokens by counts"
            )
            warnings.warn(message, FlowbertWarning, stacklevel=2)
        return
    counts = counted()
    if isinstance(counts, Corpus):
        share = counts.sentences[processes.global_rank :: processes.world_size]
        counts = reduce(operator.add, exchanged(processes, encoder.count_tokens(share, counts.name)))
    encoder.use_counts(counts)


def saved_counts(source: str) -> TokenCounts | None:
    """Counts that a run, an encoder or a file holds, here or on the hub; None if the source is none of these.

    Raises:
        UserError: If a folder holds none, the file is damaged, or there is no such model on the hub.
    """
    path = Path(source).expanduser()
    if path.suffix == COUNTS_SUFFIX:
        return TokenCounts.load(path)
    if not path.is_dir() and not _names_model(source):
        return None
    run = RunFolder.find(source, _COUNTS_ON_HUB)
    counts = run.token_counts
    found = TokenCounts.load(counts) if counts.is_file() else trained_settings(str(run.path)).get("counts")
    if found is None:
        raise UserError(f"counts: {source} holds no token counts; allowed: a folder of a `fit` with idf, sif, ...")
    return found


def _names_model(source: str) -> bool:
    """Whether a text has the form ``owner/name`` of a model on the hub, and is no file of sentences that is missing."""
    name, _ = split_revision(source)
    formed = re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and is_hub_name(name)
    return formed and not Path(name).exists() and Path(name.removesuffix(".gz")).suffix not in FORMATS
