"""Tests of `zmon notify`: it lists recipients, sends a test to each, and never shows a URL."""

import pytest

SECRET = "Tr0ub4dor"


@pytest.fixture
def file(tmp_path, endpoint):
    """The path of a file with three recipients, whose URLs are those of `endpoint`."""
    path = tmp_path / "notify.yml"
    url = f"json://127.0.0.1:{endpoint.port}/{SECRET}"
    path.write_text(
        f"recipients: [{{url: '{url}', name: ann, jobs: ['llm-*'], labels: {{owner: ann}}, severity: critical}},"
        f" {{url: '{url}', tell: [ends], outcomes: [failed]}}, {{url: '{url}', tell: [acts]}}]"
    )
    path.chmod(0o600)
    return path


def test_recipients_are_listed_with_what_they_want(command, file):
    assert command("notify", str(file)) == (
        0,
        "ann: ends (done, failed, cancelled, preempted, node_lost, unknown), findings (at least critical), "
        "acts (on findings of at least critical) of jobs llm-* with owner=ann\n"
        "json-2: ends (failed) of jobs *\njson-3: acts (on findings of at least warning) of jobs *\n",
        "",
    )


def test_each_recipient_gets_the_test_notice(command, file, endpoint):
    code, out, err = command("notify", str(file), "--test")
    assert (code, err) == (0, "")
    assert [line.split(" in ")[0] for line in out.splitlines()] == ["ann: sent", "json-2: sent", "json-3: sent"]
    assert [notice["title"] for notice in endpoint.received] == ["zmon: a test"] * 3


def test_failure_is_a_line_without_the_url(command, file, endpoint):
    endpoint.answer = lambda: (403, SECRET.encode(), {})
    code, out, err = command("notify", str(file), "--test")
    assert code == 1
    assert out.startswith("ann: not sent: ")
    assert "403" in out
    assert SECRET not in out + err


def test_wrong_file_is_one_line(command, tmp_path):
    code, out, err = command("notify", str(tmp_path / "none.yml"))
    assert (code, out, err.count("\n")) == (2, "", 1)
