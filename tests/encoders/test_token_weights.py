"""Token weights: their formulas, what they are counted over, and sentences that weigh nothing."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.encoders import make_encoder
from torch import Tensor

from flowbert.data.corpus import Corpus, load_corpus
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.counting import choose_counted, saved_counts, weigh_tokens
from flowbert.encoders.layerwise import LayerwiseEncoder
from flowbert.encoders.pooling import make_pooling
from flowbert.encoders.token_counts import TokenCounts
from flowbert.encoders.token_weights import WEIGHTINGS, ranks_of
from flowbert.encoders.tokens import special_tokens
from flowbert.errors import FlowbertWarning, UserError

SENTENCES = ["the cat sleeps", "the dog runs on the mat", "the bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_encoder(tmp_path_factory.mktemp("encoder")))


def counted(folder: str, pooling: str, over: list[str] | None = None) -> SentenceEncoder:
    encoder = SentenceEncoder.from_pretrained(folder, pooling=pooling)
    encoder.use_counts(encoder.count_tokens(SENTENCES if over is None else over))
    return encoder


def by_hand(folder: str, sentence: str, weights: dict[str, float], default: float) -> Tensor:
    """Weighted mean of the last layer over the words alone."""
    encoder = SentenceEncoder.from_pretrained(folder)
    features = encoder.tokenize([sentence])
    with torch.no_grad():
        states = encoder.backbone(**features).last_hidden_state[0, 1:-1]
    tokens = encoder.tokenizer.convert_ids_to_tokens(features["input_ids"][0, 1:-1].tolist())
    of = torch.tensor([weights.get(token, default) for token in tokens]).unsqueeze(1)
    mixed: Tensor = (of * states).sum(0) / of.sum()
    return mixed


def test_weights_by_hand(folder: str) -> None:
    n, tokens = len(SENTENCES), 11  # words above; "the" occurs four times, in all three sentences
    cases: dict[str, tuple[dict[str, float], float]] = {
        "idf": ({"the": 0.0, "cat": np.log(4 / 2)}, np.log(n + 1)),
        "idf:exponent=0.5": ({"the": 0.0, "cat": np.log(4 / 2) ** 0.5}, np.log(n + 1) ** 0.5),
        "sif:a=0.01": ({"the": 0.01 / (0.01 + 4 / tokens), "cat": 0.01 / (0.01 + 1 / tokens)}, 1.0),
        "weighted_mean:exponent=0.5": ({"the": (4 / 11 + 1e-6) ** -0.5, "cat": (1 / 11 + 1e-6) ** -0.5}, 1e3),
    }
    for pooling, (weights, unseen) in cases.items():
        found = counted(folder, pooling).encode(["the cat sits"])[0]  # "sits" was never counted
        np.testing.assert_allclose(found, by_hand(folder, "the cat sits", weights, unseen), atol=1e-5, err_msg=pooling)


def test_special_tokens_weigh_what_their_frequency_gives_only_if_asked(folder: str) -> None:
    out, within = counted(folder, "sif"), counted(folder, "sif:special=true")
    special = sorted(special_tokens(out.tokenizer))
    (_, left_out), (_, taken) = out.settings[0], within.settings[0]
    assert left_out.weights is not None
    assert taken.weights is not None
    assert float(left_out.weights[special].abs().sum()) == 0
    expected = 1e-3 / (1e-3 + 3 / 17)  # eleven words, three times [CLS] and [SEP]
    assert taken.weights[out.tokenizer.cls_token_id].item() == pytest.approx(expected)


def test_weights_from_the_vocabulary_by_hand(folder: str) -> None:
    encoder = SentenceEncoder.from_pretrained(folder, pooling="zipf:a=0.02")
    assert not encoder.needs_counts
    tokens = encoder.tokenizer.convert_ids_to_tokens(list(range(len(encoder.tokenizer))))
    words = [token for token in tokens if len(token) > 1 and token[0].isalpha()]
    harmonic = sum(1 / rank for rank in range(1, len(words) + 1))
    weights = {word: 0.02 / (0.02 + 1 / (rank * harmonic)) for rank, word in enumerate(words, 1)}
    weights["[UNK]"] = weights[words[-1]]
    sentence = "the cat sits on a \u2603 ."
    found = encoder.encode([sentence])[0]
    np.testing.assert_allclose(found, by_hand(folder, sentence, weights, weights[words[0]]), atol=1e-5)


@pytest.mark.parametrize("pooling", WEIGHTINGS)
def test_cls_weighs_what_it_is_told(folder: str, pooling: str) -> None:
    without, encoder = counted(folder, pooling), counted(folder, f"{pooling}:cls=2.5")
    special = encoder.tokenizer.cls_token_id
    (_, plain), (_, weighted) = without.settings[0], encoder.settings[0]
    assert plain.weights is not None
    assert weighted.weights is not None
    expected = plain.weights.clone()
    expected[special] = 2.5
    assert torch.equal(weighted.weights, expected)
    assert encoder.pooling == f"{pooling}:cls=2.5"
    assert encoder.kind() != without.kind()
    cls = SentenceEncoder.from_pretrained(folder, pooling="cls").encode([""])
    np.testing.assert_allclose(encoder.encode([""]), cls, atol=1e-6)


def test_equal_poolings_have_equal_texts() -> None:
    for given in ("zipf:cls=16", "zipf:cls=16.0", "zipf:a=0.01:cls=1.6e1:special=false"):
        assert make_pooling(given).text == "zipf:cls=16"
    assert make_pooling("sif:a=0.00012345671").text != make_pooling("sif:a=0.00012345672").text
    assert make_pooling("sif:special=true:a=1.0").text == make_pooling("sif:a=1:special=true").text


def test_numbers_of_tokens_may_have_holes(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SentenceEncoder.from_pretrained(folder).tokenizer
    vocabulary = dict(tokenizer.get_vocab())
    high = max(vocabulary.values()) + 5
    monkeypatch.setattr(tokenizer, "get_vocab", lambda: vocabulary | {"rare": high})
    weights = make_pooling("zipf", tokenizer).weights
    assert weights is not None
    assert len(weights) == high + 1


def test_cls_weighs_nothing_where_there_is_none(folder: str) -> None:
    encoder = SentenceEncoder.from_pretrained(folder)
    encoder.tokenizer.cls_token = None
    with pytest.raises(UserError, match=r"'zipf:cls=2', and the tokenizer has no \[CLS\]"):
        make_pooling("zipf:cls=2", encoder.tokenizer)


@pytest.mark.parametrize("mark", ["", "##", "\u0120", "\u2581"])
def test_ranks_of_words_in_every_kind_of_vocabulary(mark: str) -> None:
    words = [f"{mark}{word}" for word in ("the", "of", "2nd")]
    others = ["[CLS]", "[unused1]", "<0x0A>", "...", "'s", "!", "a", f"{mark}s", mark or "-", ""]
    ranks = ranks_of([*others, "<unk>", *words, "?"], "<unk>").tolist()
    assert ranks == [1.0] * len(others) + [3.0, 1.0, 2.0, 3.0, 1.0]


def test_a_vocabulary_without_words_weighs_all_alike() -> None:
    ranks = ranks_of(["[UNK]", "x", "y"], "[UNK]")
    assert ranks.tolist() == [1.0, 1.0, 1.0]
    weights = WEIGHTINGS["zipf"](ranks)
    assert torch.equal(weights, weights[:1].expand(3))


@pytest.mark.parametrize("pooling", WEIGHTINGS)
def test_a_sentence_that_weighs_nothing_gets_its_plain_mean(folder: str, pooling: str) -> None:
    encoder, plain = counted(folder, pooling, ["the the", "the"]), SentenceEncoder.from_pretrained(folder)
    sentences = ["", "the"] if pooling == "idf" else [""]
    np.testing.assert_allclose(encoder.encode(sentences), plain.encode(sentences), atol=1e-6)


def test_counts_of_parts_add_up(folder: str) -> None:
    encoder = SentenceEncoder.from_pretrained(folder)
    sentences = SENTENCES * 3 + ["a a a"]
    whole = encoder.count_tokens(sentences)
    for parts in (2, 3, 5):
        found = [encoder.count_tokens(sentences[rank::parts]) for rank in range(parts)]
        assert sum(found[1:], found[0]).digest == whole.digest


def test_saved_counts_are_found_in_files_and_folders(folder: str, tmp_path: Path) -> None:
    counts = SentenceEncoder.from_pretrained(folder).count_tokens(SENTENCES, "mine")
    file = counts.save(tmp_path / "x.counts")
    counts.save(tmp_path / "run" / "model" / "tokens.counts")
    for source in (file, tmp_path / "run"):
        found = saved_counts(str(source))
        assert found is not None
        assert (found.digest, found.name) == (counts.digest, "mine")
    assert saved_counts("target") is None
    with pytest.raises(UserError, match="holds no token counts"):
        saved_counts(str(tmp_path))


def test_a_wrong_word_is_told_under_its_own_option() -> None:
    corpus = Corpus.of("mine", ["a"])
    with pytest.raises(UserError, match=r"^counts: received 'corpsu'"):
        choose_counted("corpsu", lambda: corpus, lambda: ["a"], load_corpus)


def test_counts_that_nothing_needs_are_told(folder: str) -> None:
    encoder = SentenceEncoder.from_pretrained(folder, pooling="mean", counts="run")
    with pytest.warns(FlowbertWarning, match="received 'run', but pooling mean weighs no tokens"):
        weigh_tokens(encoder, lambda: Corpus.of("run", SENTENCES))


def test_what_is_counted() -> None:
    fitted, named = Corpus.of("target", ["a"]), Corpus.of("nli", ["b"])

    def choose(source: str) -> object:
        return choose_counted(source, lambda: fitted, lambda: ["a", "c"], lambda _: named)

    assert choose("corpus") is fitted
    assert choose("run") == Corpus.of("run", ["a", "c"])
    assert choose("nli") is named


def test_counts_are_part_of_the_identity(folder: str) -> None:
    keys = [counted(folder, "idf", [*SENTENCES, more]).key() for more in ("a", "a b")]
    assert keys[0]["counts"] != keys[1]["counts"]
    assert "counts" not in counted(folder, "mean").key()
    assert counted(folder, "sif:a=0.001").key() == counted(folder, "sif").key()


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        ("ifd", "pooling: received 'ifd'.*idf"),
        ("idf:a=1", "unknown option 'a=1'"),
        ("sif:a=0", "a 0; allowed: a number above 0"),
        ("sif:a=inf", "a inf; allowed: a number above 0"),
        ("zipf:cls=inf", "cls inf; allowed: a number above 0"),
        ("zipf:cls=0", "cls 0; allowed: a number above 0"),
        ("zipf:cls=true", "cls True; allowed: a number above 0"),
        ("sif:special=2", "special 2; allowed: true, false"),
        ("mean:a=1", "unknown option"),
    ],
)
def test_wrong_poolings_are_told(pooling: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_pooling(pooling)


@pytest.mark.parametrize("exponent", ["400", "1000000000"])
def test_weights_that_overflow_are_refused(folder: str, exponent: str) -> None:
    encoder = SentenceEncoder.from_pretrained(folder, pooling=f"idf:exponent={exponent}")
    counts = encoder.count_tokens([f"dog number {number}" for number in range(100)])
    with pytest.raises(
        UserError, match=rf"idf:exponent={float(exponent)!r}.?0?', whose weights overflow".replace(".0", "")
    ):
        encoder.use_counts(counts)


def test_missing_and_foreign_counts_are_refused(folder: str) -> None:
    encoder = SentenceEncoder.from_pretrained(folder, pooling="idf")
    assert encoder.needs_counts
    with pytest.raises(UserError, match="idf needs token counts"):
        encoder.encode(["a"])
    for wrong in (TokenCounts.of([[0]], 3), encoder.count_tokens([])):
        with pytest.raises(UserError, match="allowed: of the encoder's"):
            encoder.use_counts(wrong)


@pytest.mark.parametrize("pooling", ["mean", "idf"])
def test_halves_are_every_second_token_without_the_special_ones(folder: str, pooling: str) -> None:
    encoder = LayerwiseEncoder.from_pretrained(folder)
    whole = make_pooling(pooling, encoder.tokenizer).with_counts(encoder.count_tokens(SENTENCES), encoder.tokenizer)
    encoder.select([((3,), half) for half in whole.halves(encoder.tokenizer)])
    even, odd = np.split(encoder.encode(["cat dog bird runs"]), 2, axis=1)
    features = encoder.tokenize(["cat dog bird runs"])
    with torch.no_grad():
        states = encoder.backbone(**features).last_hidden_state[0]
    weights = torch.ones(6) if whole.weights is None else whole.weights[features["input_ids"][0]]
    for half, places in ((even, [2, 4]), (odd, [1, 3])):  # [CLS] is at place 0, [SEP] at 5
        expected = (weights[places, None] * states[places]).sum(0) / weights[places].sum()
        np.testing.assert_allclose(half[0], expected, atol=1e-6)


def test_a_half_without_a_token_is_the_whole(folder: str) -> None:
    encoder = LayerwiseEncoder.from_pretrained(folder)
    mean = make_pooling("mean")
    encoder.select([((3,), mean), *(((3,), half) for half in mean.halves(encoder.tokenizer))])
    whole, even, odd = np.split(encoder.encode(["cat"]), 3, axis=1)
    np.testing.assert_allclose(even, whole, atol=1e-6)
    assert not np.allclose(odd, whole, atol=1e-3)
    with pytest.raises(ValueError, match="halves of pooling 'cls'"):
        make_pooling("cls").halves(encoder.tokenizer)
