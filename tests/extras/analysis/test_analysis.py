"""A whole analysis of vectors, and its files."""

import math

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from extras.analysis.samples import texts, vectors
from flowbert.extras.analysis import Analysis, Sample, analyze_sample
from flowbert.extras.analysis.frames import parse_measures
from flowbert.extras.analysis.isotropy import DRAWN_SENTENCES, project
from helpers import refused


def test_a_number_that_is_not_finite_is_missing_here_and_in_the_file(tmp_path):
    bits = pd.DataFrame({"density": ["flow", "Gaussian"], "bits": [-1.5, math.inf]})
    analysis = Analysis({}, {"bits": bits})
    assert math.isnan(analysis.frames["bits"]["bits"][1])
    analysis.to_json(tmp_path / "analysis.json")
    again = Analysis.from_json(tmp_path / "analysis.json")
    assert_frame_equal(analysis.frames["bits"], again.frames["bits"])


def test_what_was_not_measured_is_left_out():
    assert not analyze_sample(Sample(), {"encoder": "bert"}).frames


def test_drawn_sentences_are_bounded_and_the_map_is_of_all():
    count = DRAWN_SENTENCES + 50
    x = vectors(count)["raw"]
    analysis = analyze_sample(Sample(texts(count), {"raw": x}), {}, "sentences")
    drawn = analysis.frames["sentences"]
    assert drawn["sentence"].tolist() == texts(DRAWN_SENTENCES)
    np.testing.assert_array_equal(drawn[["x", "y"]], project(x)[:DRAWN_SENTENCES])
    assert analysis.setting["sentences"] == count


def test_wrong_calls():
    refused(r"^measures: .*did you mean 'spectra'", parse_measures, "spectrum")
    refused(r"^measures: received \[\]", parse_measures, [])


@pytest.mark.parametrize("content", [b"{}", b'{"setting": 1}'])
def test_damaged_and_foreign_files(content, tmp_path):
    path = tmp_path / "analysis.json"
    path.write_bytes(content)
    refused(r"analysis\.json: ", Analysis.from_json, path)
