"""Test that the page of each folder of deploy/ names the paths and addresses that a reader must write or replace."""

import re

import pytest

from tests.places import REPOSITORY
from tests.test_paths import tracked_files

PAGES = {
    "deploy/alertmanager/": "docs/deploy/alerting.md",
    "deploy/container/": "docs/deploy/packages.md",
    "deploy/kubernetes/": "docs/deploy/kubernetes.md",
    "deploy/lab/": "docs/deploy/packages.md",
    "deploy/long-term/": "docs/deploy/long-term.md",
    "deploy/probe/": "docs/deploy/packages.md",
    "deploy/slurm/": "docs/deploy/slurm.md",
    "deploy/systemd/": "docs/deploy/systemd.md",
    "helm/zmon/": "docs/deploy/kubernetes.md",
}
FILES = [file for file in tracked_files() if file.startswith(("deploy/", "helm/zmon/values"))]
TO_WRITE = re.compile(r"/etc/(?:zmon|alertmanager)/[\w%./-]*\w|[\w@.-]*\bexample\.org(?::\d+)?")


def to_write(text: str) -> list[str]:
    """Return the paths of configuration and the example addresses of a file. `day` stands for %i of a unit."""
    return sorted({name.replace("%i", "day") for name in TO_WRITE.findall(text)})


@pytest.mark.parametrize("file", FILES)
def test_page_of_a_folder_names_each_path_and_address_of_its_files(file):
    (page,) = [page for folder, page in PAGES.items() if file.startswith(folder)]
    text = (REPOSITORY / page).read_text()
    assert [name for name in to_write((REPOSITORY / file).read_text()) if name not in text] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("EnvironmentFile=/etc/zmon/store-%i.env", ["/etc/zmon/store-day.env"]),
        ("# Copy it to /etc/alertmanager/zmon.tmpl.", ["/etc/alertmanager/zmon.tmpl"]),
        ("url: http://store.example.org:8429/api/v1/write", ["store.example.org:8429"]),
        ("to: oncall@example.org", ["oncall@example.org"]),
        ("Prolog=/etc/slurm/prolog.sh", []),
    ],
)
def test_paths_and_addresses_that_a_reader_must_write_are_listed(text, names):
    assert to_write(text) == names
