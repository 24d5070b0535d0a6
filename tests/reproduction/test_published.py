"""The published figures: all there, each row with a setting, and consistent with what the papers say."""

import statistics

import pytest

from flowbert.data.sts import TASKS
from flowbert.encoders.layers import LAYER_NAMES
from flowbert.errors import UserError
from flowbert.methods import make_calibration
from flowbert.reproduction.published import PublishedRow, published_figures, published_row, published_rows, reference
from flowbert.tasks.protocol import AGGREGATIONS

ROWS = published_rows()
FLOW = published_row("li2020-2-bert-base-uncased-flow-target")


def test_every_row_is_there_once() -> None:
    assert len(ROWS) == 60
    assert len({row.id for row in ROWS}) == 60
    counts = {source: len(published_rows(source)) for source in dict.fromkeys(row.source for row in ROWS)}
    assert counts == {"li2020": 19, "su2021": 20, "gao2021": 20, "mteb": 1}


def test_ids_and_figures_of_some_rows() -> None:
    row = published_row("li2020-2-bert-base-uncased-flow-target")
    assert (row.source, row.table, row.encoder, row.method, row.corpus, row.aggregation) == (
        "li2020",
        "2",
        "bert-base-uncased",
        "flow",
        "target",
        "wmean",
    )
    assert dict(row.figures) == dict(zip(TASKS, (63.48, 72.14, 68.42, 73.77, 75.37, 70.72, 63.11), strict=True))
    assert statistics.fmean(row.figures.values()) == pytest.approx(69.57, abs=0.005)  # as the paper has it
    mteb = published_row("mteb-sentence-transformers-all-minilm-l6-v2-last")
    assert list(mteb.figures) == list(TASKS[:-1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_has_a_complete_setting(row: PublishedRow) -> None:
    setting = row.setting
    assert all(20 < figure < 95 for figure in row.figures.values()) or row.method == "cls"
    assert setting.aggregation in AGGREGATIONS
    assert setting.layers in LAYER_NAMES or row.encoder == "glove"
    assert (setting.encoder is None) == (row.encoder == "glove")
    assert row.reference.url.startswith("https://")
    if setting.method == "raw":
        assert setting.corpus == "none"
    elif not setting.trained and setting.method != "flow":
        assert setting.corpus in ("target", "nli")
        components = getattr(make_calibration(setting.method), "n_components", None)
        assert components == setting.options["n_components"]
    if setting.method == "flow":
        assert setting.options["learning_rate"] == {"nli": 2e-5, "target": 1e-3}[setting.corpus]
    text = row.explain()
    assert text.startswith(row.id)
    assert all(item.taken in text for item in row.ambiguities)


def test_readings_taken() -> None:
    def taken(row_id: str) -> dict[str, str]:
        return {item.key: item.taken for item in published_row(row_id).ambiguities}

    flow = taken("li2020-2-bert-base-uncased-flow-target")
    assert flow["layers"] == "first_last = [1, -1]"
    assert flow["levels"] == "2"
    assert {"mixing", "dropout", "aggregation", "target", "sick"} <= set(flow)
    assert taken("gao2021-5-bert-base-uncased-embedding-last")["layers"] == "embedding_last = [0, -1]"
    assert taken("li2020-2-glove-mean")["aggregation"] == "all"
    assert "sick" not in taken("mteb-sentence-transformers-all-minilm-l6-v2-last")


def test_each_key_is_explained_once_per_row() -> None:
    for row in ROWS:
        keys = [item.key for item in row.ambiguities]
        assert len(set(keys)) == len(keys), row.id


def test_lookup() -> None:
    assert [row.corpus for row in published_rows("su2021", encoder="bert-base-uncased", method="whitening")] == [
        "nli",
        "target",
    ]
    assert published_rows("su2021", method="flow") == ()
    with pytest.raises(UserError, match=r"table: received 'li2002'; allowed: li2020, .*'li2020'"):
        published_rows("li2002")
    with pytest.raises(UserError, match=r"no published row 'li2020-2-flow'; allowed: .*did you mean"):
        published_row("li2020-2-flow")


def test_other_figures() -> None:
    assert len(published_figures()) == 58
    assert len({figure.id for figure in published_figures()}) == 58
    (gold, *_) = published_figures(source="li2020", quantity="spearman_with_edit_distance")
    assert (gold.value, gold.condition) == (-24.61, "stsb")
    assert reference(published_figures(source="su2021-blog")[0].source).year == 2021
    assert {reference(figure.source).key for figure in published_figures()} == {"li2020", "gao2021", "su2021-blog"}
    with pytest.raises(UserError, match="quantity: received 'auc'; allowed: "):
        published_figures(quantity="auc")


def test_flow_rows_use_the_paper_setting() -> None:
    name, *options = FLOW.setting.full_method.split(":")
    assert name == "flow"
    expected = {"mixing=reverse", "learning_rate=0.001", "epochs=1.0", "batch_size=64", "noise=0.0", "start_size=64"}
    assert expected | {"schedule=constant", "levels=2", "depth=3", "width=32", "coupling=additive"} <= set(options)
    nli = published_row("li2020-2-bert-base-uncased-flow-nli").setting.full_method
    assert "learning_rate=2e-05" in nli
    assert "epochs=0.15" in nli


def test_every_row_has_a_method() -> None:
    names = {row.setting.full_method.split(":")[0] for row in ROWS}
    assert names == {"raw", "flow", "whitening", "whitening-256", "whitening-384", "simcse-unsup", "simcse-sup"}


def test_rows_by_source_table_and_encoder() -> None:
    assert len(published_rows("li2020")) == 19
    assert {row.table for row in published_rows("li2020-3")} == {"3"}
    assert {row.encoder for row in published_rows("su2021", encoder="bert-base-uncased")} == {"bert-base-uncased"}
    assert published_rows("li2020", encoder="roberta-base") == ()
    with pytest.raises(UserError, match="did you mean 'li2020'"):
        published_rows("li202")
