from pathlib import Path

import pytest

from flowbert.cli.methods import chosen_method
from flowbert.errors import UserError


def test_default_is_flow() -> None:
    assert chosen_method(["fit"]) == "flow"


@pytest.mark.parametrize("argv", [["fit", "--method", "flwo"], ["fit", "--method=flwo"]])
def test_unknown_name_gets_the_nearest(argv: list[str]) -> None:
    with pytest.raises(UserError, match=r"received 'flwo'; allowed: flow.*did you mean 'flow'"):
        chosen_method(argv)


def test_config_names_the_method(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("method: flwo\n")
    with pytest.raises(UserError, match="flwo"):
        chosen_method(["fit", "--config", str(config)])
    assert chosen_method(["fit", "--config", str(config), "--method", "flow"]) == "flow"
    assert chosen_method(["fit", "--config", str(config), "--method=simcse"]) == "simcse"
    config.write_text("encoder: {}\n")
    assert chosen_method(["fit", "-c", str(config)]) == "flow"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"- a\n", r"holds list; allowed: a mapping"), (b"a: [\n", r"is not YAML"), (b"\xff\xfe\x00", r"is not YAML")],
)
def test_config_that_is_none(content: bytes, message: str, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_bytes(content)
    with pytest.raises(UserError, match=message):
        chosen_method(["fit", "--config", str(config)])
