"""The Lightning data module of SimCSE: sentences with their positives, and perhaps hard negatives."""

from collections.abc import Sequence

from flowbert.data.augment import EDITS, MaskedReplacement, edit_sentence
from flowbert.data.corpus import load_corpus
from flowbert.data.nli import load_nli
from flowbert.datamodules.examples import ExampleDataModule, Examples
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream

POSITIVES = ("dropout", *EDITS, "next_sentence", "mlm", "entailment")


class ContrastiveDataModule(ExampleDataModule):
    """Sentences with a positive, and perhaps a hard negative, for SimCSE.

    Args:
        corpus: Sentences as in :func:`flowbert.data.corpus.load_corpus` (``target``, ``train_only``, ``nli``,
            ``builtin-sample``, files, ``hub:NAME``). With ``positive=entailment`` it must be ``nli``.
        positive: What each sentence's positive is: ``dropout`` (the sentence itself, under another dropout mask);
            ``crop``, ``word_deletion``, ``delete_one_word`` (edits of it); ``next_sentence`` (of the corpus); ``mlm``
            (words replaced by a masked language model); ``entailment`` (an NLI premise's entailed hypothesis).
        positive_rate: Share of the words that ``crop``, ``word_deletion`` and ``mlm`` change, in (0, 1).
        mlm_path: The masked language model for ``positive=mlm``: a folder or hub name.
        hard_negatives: With ``entailment``: also take the premise's contradiction, as a negative; premises without one
            are left out.
        task: The STS task whose sentences ``target`` and ``train_only`` mean.
        eval_tasks: Tasks to evaluate on; default: ``task`` alone.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``; not needed for SAMPLE.
        nli: Where the NLI pairs are: ``builtin-sample``, ``hub``, or jsonl/csv/tsv/parquet files.
        column: Column of the sentences when ``corpus`` is a table.
        max_sentences: Train on a random subset of this many examples; default: all.
        held_out: Share of the distinct sentences kept out of the training for the held-out loss, in [0, 0.5].
        batch_size: Examples per step and process; each is a negative of the others. Accumulated gradients
            (``trainer.accumulate_grad_batches``) average over batches and add no negatives: ``model.chunk_size`` is
            the way to a large batch on little memory.
        max_length: Tokens after which a sentence is cut in training; evaluation cuts at the encoder's own length.
        pool: Batches whose sentences are sorted by length together. 1: random batches, as published. 32 is about 1.4
            times as fast, but the negatives then are of about the length of their sentence.
        predict: Text file whose sentences ``predict`` embeds; default: the corpus.
        seed: Seed of the subset, the held-out split, the edits and the shuffling.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        corpus: str = "target",
        positive: str = "dropout",
        positive_rate: float = 0.1,
        mlm_path: str | None = None,
        hard_negatives: bool = True,
        task: str = "SAMPLE",
        eval_tasks: list[str] | None = None,
        senteval: str | None = None,
        nli: str = "builtin-sample",
        column: str | None = None,
        max_sentences: int | None = None,
        held_out: float = 0.0,
        batch_size: int = 64,
        max_length: int = 32,
        pool: int = 1,
        predict: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if positive not in POSITIVES:
            raise UserError(f"data.positive: received {positive!r}; {choices(POSITIVES, positive)}")
        if not 0 < positive_rate < 1:
            raise UserError(f"data.positive_rate: received {positive_rate}; allowed: above 0 and below 1")
        if positive == "entailment" and corpus != "nli":
            raise UserError(f"data.positive: 'entailment' needs data.corpus nli, received {corpus!r}; allowed: nli")
        if positive == "mlm" and mlm_path is None:
            raise UserError("data.mlm_path: received nothing with data.positive mlm; allowed: a masked language model")
        if batch_size == 1:
            raise UserError("data.batch_size: received 1, so that a sentence has no negatives; allowed: at least 2")
        self.save_hyperparameters(logger=False)
        self._check_shared()
        self._replacement: MaskedReplacement | None = None

    @property
    def positive(self) -> str:
        """What each sentence's positive is."""
        return str(self.hparams["positive"])

    def load(self) -> None:
        """Read examples and tasks, and the masked language model if there is one."""
        super().load()
        if self.positive == "mlm" and self._replacement is None:
            self._replacement = MaskedReplacement(self.hparams["mlm_path"], self.hparams["positive_rate"])

    def read_examples(self) -> Examples:
        """Sentences with themselves or with what follows them, or NLI pairs or triples."""
        h = self.hparams
        if self.positive == "entailment":
            return nli_triples(h["nli"]) if h["hard_negatives"] else _nli_entailments(h["nli"])
        corpus = load_corpus(h["corpus"], task=h["task"], senteval=h["senteval"], nli=h["nli"], column=h["column"])
        if self.positive == "next_sentence":
            return Examples(f"{corpus.name}, next sentence", (corpus.sentences[:-1], corpus.sentences[1:]))
        name = corpus.name if self.positive == "dropout" else f"{corpus.name}, {self.positive}"
        return Examples(name, (corpus.sentences, corpus.sentences))

    def sides(self, epoch: int, indices: Sequence[int]) -> list[list[str]]:
        """Anchors and positives, the latter edited by seed, epoch and example alone."""
        sides = super().sides(epoch, indices)
        rngs = [Stream(self.seed, "edit", epoch, i).python() for i in indices]
        if self._replacement is not None:
            sides[1] = self._replacement(sides[1], rngs)
        elif self.positive in EDITS:
            rate = self.hparams["positive_rate"]
            pairs = zip(sides[1], rngs, strict=True)
            sides[1] = [edit_sentence(sentence, self.positive, rate, rng) for sentence, rng in pairs]
        return sides


def nli_triples(source: str) -> Examples:
    """(premise, entailment, contradiction) of every premise of an NLI source that has both."""
    triples = load_nli(source).triples()
    if not triples:
        raise UserError(
            f"data.nli: {source} has no premise with both an entailment and a contradiction; allowed: NLI data with "
            "such triples, or data.hard_negatives false"
        )
    anchors, positives, negatives = zip(*triples, strict=True)
    return Examples("nli triples", (anchors, positives, negatives))


def _nli_entailments(source: str) -> Examples:
    data = load_nli(source)
    rows = [i for i, label in enumerate(data.labels) if label == "entailment"]
    if not rows:
        raise UserError(f"data.nli: {source} has no entailment; allowed: NLI data with entailments")
    return Examples("nli entailments", (tuple(data.premises[i] for i in rows), tuple(data.hypotheses[i] for i in rows)))
