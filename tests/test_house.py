"""Rules of the house that a reader would otherwise have to watch over: checked on the source, without exceptions."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "flowbert"
FILES = sorted(ROOT.rglob("*.py"))
BELOW = [path for path in FILES if path.relative_to(ROOT).parts[0] != "cli"]
LONGEST = 350
# Groups of options; what stands behind one in a text is an option, as in `model.levels`.
GROUPS = ("checkpoint", "data", "encoder", "model", "trainer", "whitening")
# Files that name what nothing public offers; each has a test that fails when it changes.
ADAPTERS = ("encoders/cpu/attention.py", "training/lightning_adapter.py")
FOREIGN = ("argparse", "jsonargparse", "lightning_fabric", "pytorch_lightning", "transformers")
PRIVATE = (
    *("_actions", "_action_groups", "_name_parser_map", "_option_string_actions", "_subcommand_parsers", "_typehint"),
    *("_add_arguments", "_batches_that_stepped", "_parser", "_get", "_set_seed", "_dump_config", "_parse_ckpt_path"),
    *("_attn_implementation", "_update_causal_mask", "_tokenizer", "_call_setup_hook", "_data_connector"),
)
# Names of modules and classes that say too little.
VAGUE = (
    *("certainty", "compared", "encode_cached", "grad_cache", "kept", "matching", "parts", "places", "positions"),
    *("quiet", "sides", "sources", "structural", "ties"),
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants of a file, those in f-strings as well, without docstrings."""
    # A text alone is a docstring, wherever it stands: that of a constant as well.
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node


def options_in(text: str) -> list[str]:
    """Words of a text that are options of the command line: ``--seed``, ``data.task``."""
    found = []
    for word in text.replace("`", " ").replace("(", " ").replace("=", " ").split():
        name = word.strip(",.:;!?'\"()[]{}")
        group, _, option = name.removeprefix("--").partition(".")
        dashed = name.startswith("--") and name.removeprefix("--")[:1].isalpha()
        if dashed or (group in GROUPS and option.split(".")[0].isidentifier() and not _is_file(name)):
            found.append(name)
    return found


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".json", ".safetensors", ".txt", ".bin", ".onnx")


def test_options_are_found_in_texts() -> None:
    assert options_in("--seed: received 1; see `data.task` (model.loss.temperature)") == [
        *("--seed", "data.task", "model.loss.temperature")
    ]
    assert options_in("model.safetensors and encoder.json: a model. Data: 3 -- or more") == []


def test_options_are_named_in_the_command_line_only() -> None:
    assert not {
        f"{name_of(path)}:{node.lineno}: {node.value!r}"
        for path in BELOW
        for node in texts(parsed(path))
        if options_in(str(node.value))
    }


def test_every_group_of_options_is_watched() -> None:
    from flowbert.cli.options import OPTIONS

    assert {name.split(".")[0] for name in OPTIONS if "." in name} <= set(GROUPS)


def private_uses(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOREIGN:
            inside = [part for part in (node.module or "").split(".") if part.startswith("_")]
            names = [alias.name for alias in node.names if alias.name.startswith("_")]
            yield from (f"{node.lineno}: {name}" for name in (*inside, *names))
        elif isinstance(node, ast.Attribute) and node.attr in PRIVATE and not _is_own(node, tree):
            yield f"{node.lineno}: {node.attr}"


def _is_own(node: ast.Attribute, tree: ast.Module) -> bool:
    """Whether an attribute of ``self`` is one that a class of this file without a foreign base sets itself."""
    if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return False
    owner = next(c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and node in ast.walk(c))
    foreign = {
        alias.asname or alias.name
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom) and (each.module or "").split(".")[0] in FOREIGN
        for alias in each.names
    }
    return not any(isinstance(base, ast.Name) and base.id in foreign for base in owner.bases)


def test_nothing_private_of_a_library_is_used() -> None:
    found = {name_of(path): list(private_uses(parsed(path))) for path in FILES if name_of(path) not in ADAPTERS}
    assert not {name: uses for name, uses in found.items() if uses}


def test_private_uses_are_found() -> None:
    tree = ast.parse(
        "from jsonargparse._core import ArgumentParser\n"
        "from pytorch_lightning.cli import LightningCLI, _x\n"
        "class Own:\n    def f(self): return self._parser\n"
        "class CLI(LightningCLI):\n    def f(self): return self._parser, self.config._actions\n"
    )
    assert sorted(private_uses(tree)) == ["1: _core", "2: _x", "6: _actions", "6: _parser"]


def test_no_file_is_too_long() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert not {name: length for name, length in lengths.items() if length > LONGEST}


def test_names_say_enough() -> None:
    for path in FILES:
        classes = {node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)}
        assert not {name for name in (path.stem, *classes) if name.strip("_").lower() in VAGUE}, path


def test_adapters_are_there() -> None:
    assert all((ROOT / name).is_file() for name in ADAPTERS)
