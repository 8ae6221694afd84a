"""`zmon predict` tells other sizes of what was recorded, and unknown where nothing says."""

import json

import pytest
from click.testing import CliRunner

from tests.offline.comm_bench.test_curve import TWO_HOSTS
from tests.scaling.test_fit import point
from zmon.cli.main import cli
from zmon.errors import UsageError
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.offline.comm_bench import write


@pytest.fixture
def recorded(tmp_path):
    BaselineStore(tmp_path / FOLDER).record("ranker", point(1, 512), point(4, 2048), point(4, 1024))
    return tmp_path


def predict(folder, *words):
    return CliRunner().invoke(cli, ["predict", "ranker", "--data-dir", str(folder), *words])


def test_person_reads_the_step_the_efficiency_and_where_it_goes(recorded):
    told = predict(recorded, "--ranks", "2,4")
    assert told.exit_code == 0, told.output
    assert "weak" in told.output
    assert "4 ranks: own" in told.output
    assert "from 1 × 512, 4 × 256, 4 × 512 samples, recorded of ranker" in told.output


def test_batch_of_all_ranks_is_strong_scaling(recorded):
    (size,) = json.loads(predict(recorded, "--ranks", "4", "--batch", "512", "--json").output)["sizes"]
    assert (size["ranks"], size["samples"]) == (4, 512)
    assert size["predicted"]["seconds"] == pytest.approx(point(4, 512).seconds, rel=1e-6)
    assert sum(size["predicted"]["causes"].values()) == pytest.approx(size["predicted"]["seconds"])


def test_what_if_stands_beside_what_is(recorded):
    words = ("--ranks", "4", "--what-if", "wire=0.5")
    assert "%)" in predict(recorded, *words).output
    (size,) = json.loads(predict(recorded, *words, "--json").output)["sizes"]
    assert size["what_if"]["causes"]["all_to_all"] == pytest.approx(size["predicted"]["causes"]["all_to_all"] / 2)


def test_links_that_nobody_measured_are_unknown_and_measured_ones_are_not(recorded):
    told = predict(recorded, "--ranks", "4,16")
    assert told.exit_code == 3
    assert "16 ranks: unknown, the speed of" in told.output
    write(recorded / "links.json", TWO_HOSTS, 1.8e9)
    assert predict(recorded, "--ranks", "4,16", "--links", str(recorded / "links.json")).exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ranks", "4", "--batch", "8", "--batch-per-rank", "2"), "contradict"),
        (("--ranks", "four"), "not a list of sizes"),
        (("--ranks", "4", "--what-if", "gpu=2"), "use one of net=FACTOR"),
        (("--ranks", "4", "--links", "nowhere.json"), "cannot use nowhere.json"),
    ],
)
def test_misuse_is_refused(recorded, words, says):
    told = predict(recorded, *words)
    assert isinstance(told.exception, UsageError)
    assert says in str(told.exception)


def test_name_of_which_nothing_was_recorded_is_refused(tmp_path):
    assert "nothing was recorded of it" in str(predict(tmp_path, "--ranks", "4").exception)


def test_single_rank_alone_lets_predict_nothing(tmp_path):
    BaselineStore(tmp_path / FOLDER).record("ranker", point(1, 512))
    assert "several ranks" in str(predict(tmp_path, "--ranks", "4").exception)
