"""The page and the tables of a run, byte for byte those of the files that it wrote."""

from experiments.small import write_pairs
from flowbert.experiments import Results, compare
from flowbert.experiments.summary import print_results
from flowbert.extras.report import report
from flowbert.extras.report.content import content_of
from flowbert.extras.report.page import save_page
from helpers import draw_nothing


def written(page):
    """The page, and its pictures with their data."""
    folder = page.with_name("figures")
    return {file.name: file.read_bytes() for file in [page, *folder.iterdir()]}


def test_a_comparison(tmp_path, capsys, monkeypatch):
    draw_nothing(monkeypatch)
    file, pairs = tmp_path / "mine.json", write_pairs(tmp_path / "pairs.tsv")
    given = {"tasks": pairs, "corpus": "builtin-sample", "max_sentences": 700}
    results = compare(methods="raw,whitening", bootstrap=50, output=file, **given)
    own = written(save_page(content_of(file, results), tmp_path / "a" / "report.html"))
    assert len(own) > 9
    assert b"Nearest neighbours" in own["report.html"]
    assert written(report(file, tmp_path / "b" / "report.html")) == own
    print_results(results)
    printed = capsys.readouterr().out
    print_results(Results.load(file))
    assert capsys.readouterr().out == printed
    assert "whitening" in printed
