"""Tests of the page of a run, which comes from the environment of the job. It is never guessed, and has no secret."""

import pytest

from tests.probe.reading import run_rank
from zmon.probe.run_page import with_run_page

WANDB = {"WANDB_ENTITY": "ann", "WANDB_PROJECT": "ads", "WANDB_RUN_ID": "1jx1ud12", "WANDB_API_KEY": "secret"}
MLFLOW = {
    "MLFLOW_TRACKING_URI": "http://mlflow:5000", "MLFLOW_EXPERIMENT_ID": "12", "MLFLOW_RUN_ID": "9f8e",
    "MLFLOW_TRACKING_PASSWORD": "secret",
}  # fmt: skip
KEY = "0123456789abcdef0123456789abcdef"
COMET = {
    "COMET_WORKSPACE": "ann", "COMET_PROJECT_NAME": "ads", "COMET_EXPERIMENT_KEY": KEY, "COMET_API_KEY": "secret",
}  # fmt: skip
PAGES = {
    "W&B": (WANDB, "https://wandb.ai/ann/ads/runs/1jx1ud12"),
    "W&B on its own server": (
        {**WANDB, "WANDB_BASE_URL": "http://10.0.0.7:8080/"}, "http://10.0.0.7:8080/ann/ads/runs/1jx1ud12",
    ),
    "MLflow": (MLFLOW, "http://mlflow:5000/#/experiments/12/runs/9f8e"),
    "MLflow below a path": (
        {**MLFLOW, "MLFLOW_TRACKING_URI": "https://ml.example.org/mlflow/"},
        "https://ml.example.org/mlflow/#/experiments/12/runs/9f8e",
    ),
    "Comet": (COMET, f"https://www.comet.com/ann/ads/{KEY}"),
    "Comet on its own server": (
        {**COMET, "COMET_URL_OVERRIDE": "https://comet.example.org/clientlib/"},
        f"https://comet.example.org/ann/ads/{KEY}",
    ),
    "several": ({**COMET, **MLFLOW}, "http://mlflow:5000/#/experiments/12/runs/9f8e"),
}  # fmt: skip
NO_PAGE = {
    "nothing": {},
    "W&B makes the id within the job": {**WANDB, "WANDB_RUN_ID": ""},
    "W&B chooses the entity": {**WANDB, "WANDB_ENTITY": ""},
    "W&B writes to a folder": {**WANDB, "WANDB_MODE": "offline"},
    "W&B is switched off": {**WANDB, "WANDB_MODE": "disabled"},
    "script instead of a server": {**WANDB, "WANDB_BASE_URL": "javascript:alert(1)//"},
    "names that leave their part of the path": {**WANDB, "WANDB_PROJECT": "../../evil"},
    "names with markup": {**WANDB, "WANDB_RUN_ID": '"><script>'},
    "names in a query": {**WANDB, "WANDB_PROJECT": "ads?token=secret"},
    "MLflow makes the id within the job": {**MLFLOW, "MLFLOW_RUN_ID": ""},
    "MLflow writes to a folder": {**MLFLOW, "MLFLOW_TRACKING_URI": "file:///data/mlruns"},
    "MLflow writes to a database": {**MLFLOW, "MLFLOW_TRACKING_URI": "postgresql://ann:secret@db/mlflow"},
    "MLflow with a password": {**MLFLOW, "MLFLOW_TRACKING_URI": "https://ann:secret@mlflow:5000"},
    "Comet makes the key within the job": {**COMET, "COMET_EXPERIMENT_KEY": ""},
    "a URL that is too long for a label": {**MLFLOW, "MLFLOW_RUN_ID": "9" * 128},
}


@pytest.mark.parametrize(("env", "url"), PAGES.values(), ids=PAGES)
def test_run_page_is_a_label_of_the_job(env, url):
    assert with_run_page({"owner": "ann"}, env) == {"run_page": url, "owner": "ann"}


@pytest.mark.parametrize("env", NO_PAGE.values(), ids=NO_PAGE)
def test_unknown_run_page_is_left_out(env):
    assert with_run_page({"owner": "ann"}, env) == {"owner": "ann"}


@pytest.mark.parametrize(
    "labels",
    [{"run_page": "http://tensorboard:6006"}, {f"label{number}": "x" for number in range(16)}],
    ids=["the job names its page", "there is no place for another label"],
)
def test_labels_of_the_job_come_first(labels):
    assert with_run_page(labels, WANDB) == labels


def test_label_of_a_rank_has_the_page(start_rank):
    rank = run_rank(start_rank, "print(probe._identity.labels)", **WANDB)
    assert rank.output.strip() == "{'run_page': 'https://wandb.ai/ann/ads/runs/1jx1ud12'}"
