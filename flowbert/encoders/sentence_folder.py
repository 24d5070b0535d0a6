"""A sentence-transformers folder: what it says about how its transformer is meant to be used."""

from pathlib import Path
from typing import Any

from flowbert.encoders.after_pooling import ALL, NONE, AfterPooling, Dense, Normalize
from flowbert.errors import UserError
from flowbert.io.json_file import read_json

_POOLINGS = {"cls": "cls", "max": "max", "mean": "mean", "weightedmean": "position_mean", "lasttoken": "last_token"}
_OLD_POOLINGS = {  # one switch each, before version 6
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_KNOWN = ("Pooling", "Dense", "Normalize", "Dropout")  # dropout does nothing in evaluation


class SentenceFolder:
    """The files beside the transformer; nothing in a folder that is none of sentence-transformers.

    Args:
        folder: The folder.

    Raises:
        UserError: If a file in it is damaged.

    References:
        https://sbert.net/docs/package_reference/base/modules.html
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = _read(folder / "modules.json", list)
        try:
            self._modules = [(str(one["type"]).rpartition(".")[2], folder / str(one["path"])) for one in listed]
        except (KeyError, TypeError) as error:
            raise UserError(f"{folder / 'modules.json'}: needed: a list of modules, type and path each") from error

    def __bool__(self) -> bool:
        return bool(self._modules)

    @property
    def ends_in_normalize(self) -> bool:
        """Whether its vectors have length 1."""
        return bool(self) and self._modules[-1][0] == "Normalize"

    @property
    def lowercases(self) -> bool:
        """Whether text is put into lower case, whatever the tokenizer does."""
        return bool(self._transformer().get("do_lower_case"))

    @property
    def max_length(self) -> int | None:
        """Tokens after which it cuts; None if it does not say."""
        told = self._transformer().get("max_seq_length")
        if told is None and self:
            limits = (("tokenizer_config.json", "model_max_length"), ("config.json", "max_position_embeddings"))
            found = [_read(self.folder / file, dict).get(name) for file, name in limits]
            # "No limit" is written as a number beyond all others.
            told = min((each for each in found if isinstance(each, int) and 0 < each < 2**31), default=None)
        return told if isinstance(told, int) else None

    @property
    def pooling(self) -> str | None:
        """Its pooling as it is called here; None if it has none.

        Raises:
            UserError: If there is no such pooling here.
        """
        content = self._pooling()
        if content is None:
            return None
        old = [mode for name, mode in _OLD_POOLINGS.items() if content.get(name)]
        modes = content.get("pooling_mode", old or "mean")
        mode = modes[0] if isinstance(modes, list) and len(modes) == 1 else modes
        if not isinstance(mode, str) or mode not in _POOLINGS:
            raise UserError(
                f"pooling: {self.folder} asks for {mode!r}; allowed: a pooling of your own, or a folder with one of "
                f"{', '.join(_POOLINGS)}"
            )
        return _POOLINGS[mode]

    @property
    def prompt(self) -> str:
        """What it puts before every sentence unless told otherwise."""
        content = _read(self.folder / "config_sentence_transformers.json", dict) if self else {}
        prompt = (content.get("prompts") or {}).get(content.get("default_prompt_name"))
        return prompt if isinstance(prompt, str) else ""

    def check_prompt(self, prompt: str) -> None:
        """Refuse a prompt whose tokens the folder leaves out of the pooling: here they take part.

        Raises:
            UserError: If it is one.
        """
        if prompt and (self._pooling() or {}).get("include_prompt") is False:
            raise UserError(
                f"prompt: received {prompt!r}, which {self.folder} leaves out of its pooling (include_prompt: false); "
                "allowed here: an empty one"
            )

    def after_pooling(self, modules: str) -> AfterPooling:
        """The modules after the pooling: :data:`flowbert.encoders.after_pooling.MODULES`.

        Raises:
            UserError: If one is of a kind that is not known here, or damaged.
        """
        if modules == NONE or not self:
            return AfterPooling()
        kinds = [kind for kind, _ in self._modules]
        unknown = [kind for kind in kinds[1:] if kind not in _KNOWN]
        if kinds[0] != "Transformer" or unknown or kinds.count("Pooling") > 1:
            raise UserError(
                f"modules: {self.folder} has {', '.join(kinds)}; allowed: Transformer, {', '.join(_KNOWN)}, or modules "
                "none"
            )
        parts: list[Dense | Normalize] = []
        for kind, folder in self._modules:
            content = _read(folder / "config.json", dict) if kind in ("Dense", "Normalize") else {}
            for name in ("module_input_name", "module_output_name"):
                if content.get(name) not in (None, "sentence_embedding"):
                    raise UserError(f"{folder}: {name} {content[name]!r}; allowed: sentence_embedding, or modules none")
            if kind == "Dense":
                parts.append(Dense.read(folder, content))
            elif kind == "Normalize":
                parts.append(Normalize())
        while modules != ALL and parts and isinstance(parts[-1], Normalize):
            parts.pop()
        return AfterPooling(parts, self.pooling or "mean")

    def _transformer(self) -> dict[str, Any]:
        files = sorted(self.folder.glob("sentence_*_config.json")) if self else []
        return _read(files[0], dict) if files else {}

    def _pooling(self) -> dict[str, Any] | None:
        found = [_read(folder / "config.json", dict) for kind, folder in self._modules if kind == "Pooling"]
        return found[0] if found else None


def _read(path: Path, kind: type) -> Any:
    """Content of a JSON file; empty if there is none."""
    return read_json(path, kind) if path.is_file() else kind()
