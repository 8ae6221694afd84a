"""Tests of `zmon predict`, which predicts steps at other sizes from recorded baselines, and reports what is unknown."""

import json
import re

import pytest
from click.testing import CliRunner

from tests.scaling.test_bandwidth import TWO_HOSTS
from tests.scaling.test_fit import point
from zmon.cli.main import cli
from zmon.errors import UsageError
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.offline.measured_files import write_links


@pytest.fixture
def baseline_folder(tmp_path):
    """A data directory with baselines of `ranker` at three sizes."""
    BaselineStore(tmp_path / FOLDER).record("ranker", point(1, 512), point(4, 2048), point(4, 1024))
    return tmp_path


def predict(folder, *words):
    """Run `zmon predict ranker` in this process, and return click's result."""
    return CliRunner().invoke(cli, ["predict", "ranker", "--data-dir", str(folder), *words])


def test_output_has_step_time_efficiency_and_time_categories(baseline_folder):
    result = predict(baseline_folder, "--ranks", "2,4")
    assert result.exit_code == 0, result.output
    assert "weak" in result.output
    assert "4 ranks: own" in result.output
    assert "from the baselines of ranker: 1 × 512, 4 × 256, 4 × 512 samples" in result.output


def test_prediction_with_batch_of_all_ranks_has_that_batch(baseline_folder):
    (size,) = json.loads(predict(baseline_folder, "--ranks", "4", "--batch", "512", "--json").output)["sizes"]
    assert (size["ranks"], size["samples"]) == (4, 512)
    assert size["predicted"]["seconds"] == pytest.approx(point(4, 512).seconds, rel=1e-6)
    assert sum(size["predicted"]["causes"].values()) == pytest.approx(size["predicted"]["seconds"])


def test_what_if_is_shown_beside_the_prediction(baseline_folder):
    output = predict(baseline_folder, "--ranks", "4", "--what-if", "wire=0.5").output
    assert "wire=0.5" in output
    assert re.search(r"ms \(-\d+%\)", output)  # a step takes less time if transfers do


def test_prediction_over_unmeasured_links_is_unknown(baseline_folder):
    result = predict(baseline_folder, "--ranks", "4,16")
    assert result.exit_code == 3
    assert "16 ranks: unknown, the speed of" in result.output
    write_links(baseline_folder / "links.json", TWO_HOSTS, 1.8e9)
    assert predict(baseline_folder, "--ranks", "4,16", "--links", str(baseline_folder / "links.json")).exit_code == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--ranks", "4", "--batch", "8", "--batch-per-rank", "2"), "contradict"),
        (("--ranks", "four"), "not a list of sizes"),
        (("--ranks", "4", "--what-if", "gpu=2"), "use one of net=FACTOR"),
        (("--ranks", "4", "--links", "nowhere.json"), "cannot use nowhere.json"),
    ],
)
def test_misuse_is_refused(baseline_folder, words, part):
    result = predict(baseline_folder, *words)
    assert isinstance(result.exception, UsageError)
    assert part in str(result.exception)


def test_name_without_a_baseline_is_refused(tmp_path):
    assert "has no baseline of this name" in str(predict(tmp_path, "--ranks", "4").exception)


def test_baseline_of_single_rank_is_refused(tmp_path):
    BaselineStore(tmp_path / FOLDER).record("ranker", point(1, 512))
    assert "several ranks" in str(predict(tmp_path, "--ranks", "4").exception)
