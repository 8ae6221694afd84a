"""Tests of the URL of a run's page: a job cannot turn its label into a script, or into a link with a password."""

import pytest

from zmon.schema.names import run_page

LINKS = [
    "https://wandb.ai/ann/ads/runs/1jx1ud12",
    "http://10.0.0.7:5000/#/experiments/12/runs/9f8e",
    "http://[fd00::7]:6006",
    "https://tensorboard.example.org/ads/?run=a&smoothing=0.6#scalars",
    "https://www.comet.com/ann/ads/0123456789abcdef0123456789abcdef",
]
NO_LINKS = [
    "",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "//evil.example.org/",
    "https://",
    "https:///path",
    "https://ann:secret@wandb.ai/ads",
    "https://ann@wandb.ai/ads",
    "https://wandb.ai\\@evil.example.org/",
    'https://wandb.ai/"><script>alert(1)</script>',
    "https://wandb.ai/' onmouseover=alert(1)",
    "https://wandb.ai/a b",
    "https://wandb.ai/a\nb",
    "https://wandb.ai/a\n",
    "https://wandb.ai/\x1b]8;;",
    "https://wandb.ai/\u202e",
    "https://wandb.ai:port/",
    " https://wandb.ai/",
]


@pytest.mark.parametrize("url", LINKS)
def test_link_to_a_web_page_is_the_run_page(url):
    assert run_page({"owner": "ann", "run_page": url}) == url


@pytest.mark.parametrize("url", NO_LINKS)
def test_text_that_is_no_link_to_a_web_page_is_no_run_page(url):
    assert run_page({"run_page": url}) == ""


def test_job_without_the_label_has_no_run_page():
    assert run_page({"owner": "ann"}) == ""
