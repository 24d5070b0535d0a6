"""What an advice is: the settings in the order of the criterion, reasons, and a file that ``fit`` takes."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MAP_LAYERS, MAP_POOLING = "embedding_last", {True: "zipf:cls=16", False: "zipf"}
"""Layers that go with a map, and pooling by whether [CLS] holds the sentence; chosen as docs/real-run.md says."""

MAP_SHRINKAGE = 0.8
"""Of the recommended whitening, chosen likewise."""

_HEAD = "advised: "


@dataclass(frozen=True)
class Candidate:
    """A setting on the plain mean over tokens, and what the criterion says of it.

    Attributes:
        layers: Layers that are averaged.
        method: The map.
        criterion: Its merit, see :mod:`flowbert.advice.criterion`; higher is better.
        low: Lower end of the 95% confidence interval over sentences.
        high: Upper end.
        tied: Whether its distance to the advised setting is within the 95% confidence interval of that distance.
    """

    layers: str
    method: str
    criterion: float
    low: float
    high: float
    tied: bool = False

    @property
    def label(self) -> str:
        """The setting in words."""
        return f"{self.method}, layers {self.layers}"


@dataclass(frozen=True)
class Advice:
    """What to take for a corpus.

    Attributes:
        candidates: All settings, the one that the criterion takes first.
        sentences: How many sentences were compared.
        corpus: Options that name the corpus: ``corpus``, and ``column`` or ``nli`` where they matter.
        encoder: Options that name the encoder, but for layers and pooling.
        with_map: Layers and pooling that come with a map, which the criterion cannot judge.
        sentence_model: Whether the encoder is a sentence-transformers model, which are trained for similarity.
    """

    candidates: tuple[Candidate, ...]
    sentences: int
    corpus: Mapping[str, Any]
    encoder: Mapping[str, Any]
    with_map: tuple[str, str]
    sentence_model: bool = False

    @property
    def best(self) -> Candidate:
        """What the criterion takes."""
        return self.candidates[0]

    @property
    def setting(self) -> tuple[str, str, str]:
        """What is advised: layers, pooling and map."""
        layers, pooling = (self.best.layers, "mean") if self.best.method == "raw" else self.with_map
        return layers, pooling, self.best.method

    @property
    def label(self) -> str:
        """The same in words."""
        layers, pooling, method = self.setting
        return f"{method}, {pooling}, layers {layers}"

    @property
    def usual(self) -> Candidate:
        """The setting without any choice; raw, the last layer."""
        return next(each for each in self.candidates if (each.method, each.layers) == ("raw", "last"))

    @property
    def reasons(self) -> tuple[str, str]:
        """Why, in two lines; the second says how sure it is."""
        usual = "" if self.best is self.usual else f"; {self.usual.label} by {self.usual.criterion:.2f}"
        first = (
            f"On the plain mean {self.best.label} tells views from others' by {self.best.criterion:.2f} standard "
            f"deviations{usual} ({self.sentences} sentences)."
        )
        tied = [candidate for candidate in self.candidates[1:] if candidate.tied]
        if not tied:
            return first, "Resampled, these sentences give the same advice: all others are outside the 95% interval."
        others = "; ".join(candidate.label for candidate in tied[:3])
        more = f" and {len(tied) - 3} more" if len(tied) > 3 else ""
        return first, f"Unsure between it and {others}{more}: the difference is within its 95% confidence interval."

    @property
    def note(self) -> str:
        """What to know about the use of it."""
        if self.best.method == "raw":
            return (
                f"Nothing is to be fitted: `encode` with layers {self.best.layers} and pooling mean. The file fits the "
                "recommended whitening beside raw; of its run take the method raw."
            )
        said = [
            "Layers and token weights come with the map and are not judged. It is for cosines: a classifier on top of "
            "the vectors reads raw ones better."
        ]
        pooling = self.with_map[1].split(":")[0]
        if pooling != self.with_map[1]:
            said.append(f"Questions find their answers better without [CLS]: pooling {pooling}.")
        if self.sentence_model:
            said.append(
                "This is a sentence-transformers model. Where it was trained on much data for similarity, maps cost "
                "points even if the criterion takes one: compare with raw on pairs of your own."
            )
        return " ".join(said)

    def config(self) -> dict[str, Any]:
        """Options that ``fit`` takes as they stand: the whitening that is advised, or beside raw if that is."""
        layers, pooling, method = self.setting
        encoder = {**self.encoder, "layers": layers, "pooling": pooling}
        name, *options = method.split(":")
        whitening = {key: float(value) for key, value in (option.split("=") for option in options)}
        if name == "raw":
            whitening = {"shrinkage": MAP_SHRINKAGE}
        return {
            "method": "whitening",
            "encoder": encoder,
            **self.corpus,
            **({"whitening": whitening} if whitening else {}),
            "data": {"held_out": 0.0},
        }

    def yaml(self) -> str:
        """The same as a file, with the reasons at its head."""
        lines = [f"{_HEAD}{self.label}", *self.reasons, self.note]
        head = "".join(f"# {line}\n" for line in lines)
        return head + yaml.safe_dump(self.config(), sort_keys=False)


def may_hold_advice(path: Path) -> bool:
    """Whether a file may be written over: there is none, or it is an advice."""
    if not path.exists():
        return True
    with suppress(OSError), path.open("rb") as file:
        return file.readline().startswith(f"# {_HEAD}".encode())
    return False
