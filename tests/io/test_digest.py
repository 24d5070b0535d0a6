import pytest
import torch

from flowbert.data.corpus import sentences_digest
from flowbert.io.digest import digest_bytes, digest_chunks, digest_json, digest_tensors, raw_digest

STATE = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(3)}
VALUE = {"é": [1, 2.5, None], "a": {"z": True, "b": "ü"}}


def test_values_never_change() -> None:
    """They name folders of stored embeddings and stand in result files."""
    assert digest_tensors(STATE) == "9c67bfa962a403dec90dc5b84ad90940"
    assert digest_json(VALUE) == "a6393fa07c56a77df1cf45d7058d16df"
    assert digest_json(VALUE, compact=True) == "2e80e7373d7c6370d3f42a9448226807"
    assert sentences_digest(["a", "é b", ""]) == "065467a7b71a61c8dcb95ff7c3f5f621"
    assert digest_json({"name": "counting", "layers": [1, 2]}) == "3812787bd7f425657ed38ec003b81102"
    assert raw_digest("été".encode()).hex() == "3dd618763c3815c2d201b466b8e6219e"


def test_cutting_into_chunks_does_not_matter() -> None:
    assert digest_bytes(b"abc") == digest_chunks([b"a", b"", memoryview(b"bc")]) == raw_digest(b"abc").hex()


def test_order_of_tensors_and_layout_in_memory_do_not_matter() -> None:
    shuffled = {"n": STATE["n"], "a": STATE["a"], "b": STATE["b"].t().contiguous().t()}
    assert digest_tensors(shuffled) == digest_tensors(STATE)


@pytest.mark.parametrize(
    "change",
    [
        {"b": torch.arange(6.0).reshape(3, 2)},
        {"b": torch.arange(6.0, dtype=torch.float64).reshape(2, 3)},
        {"b": torch.arange(6.0).reshape(2, 3) + torch.eye(2, 3) * 1e-6},
        {"c": torch.zeros(1)},
    ],
)
def test_any_change_of_the_tensors_shows(change: dict[str, torch.Tensor]) -> None:
    assert digest_tensors({**STATE, **change}) != digest_tensors(STATE)
