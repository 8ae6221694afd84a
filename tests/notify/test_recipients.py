"""Tests of the file of recipients: what each wants, and one line for each mistake, without a URL."""

import pytest

from zmon.errors import UsageError
from zmon.notify.notices import ENDS, FINDINGS, Notice
from zmon.notify.recipients import read_recipients

SECRET = "json://user:Tr0ub4dor@127.0.0.1:9/s3cr3t-path"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the file and returns its path."""

    def written(text, mode=0o600):
        path = tmp_path / "notify.yml"
        path.write_text(text)
        path.chmod(mode)
        return path

    return written


def notice(kind=ENDS, job_id="llm-7", labels=None, outcome="failed", severity="critical"):
    """Return a notice with the fields by which recipients choose."""
    return Notice("id", kind, job_id, labels or {}, "title", "body", outcome=outcome, severity=severity)


@pytest.mark.parametrize(
    ("wishes", "wanted", "unwanted"),
    [
        ("", [notice(), notice(FINDINGS), notice(FINDINGS, severity="warning"), notice(outcome="newer")], []),
        ("tell: [ends]", [notice()], [notice(FINDINGS)]),
        ("tell: [findings], severity: critical", [notice(FINDINGS)], [notice(), notice(FINDINGS, severity="warning")]),
        ("jobs: ['llm-*', ads]", [notice(), notice(job_id="ads")], [notice(job_id="video")]),
        (
            "labels: {owner: ann}",
            [notice(labels={"owner": "ann", "x": "y"})],
            [notice(), notice(labels={"owner": ""})],
        ),
        ("outcomes: [failed, node_lost]", [notice(), notice(outcome="node_lost")], [notice(outcome="done")]),
    ],
)
def test_recipient_gets_what_it_wants(write, wishes, wanted, unwanted):
    (recipient,) = read_recipients(write(f"recipients: [{{url: '{SECRET}'{', ' if wishes else ''}{wishes}}}]"))
    assert all(map(recipient.wants, wanted))
    assert not any(map(recipient.wants, unwanted))


def test_recipients_without_names_have_that_of_their_service(write):
    path = write("recipients: [{url: 'json://a'}, {url: 'json://b'}, {url: 'slack://c', name: ann}]")
    assert [recipient.name for recipient in read_recipients(path)] == ["json-1", "json-2", "ann"]


def test_url_may_be_in_a_file(write, tmp_path):
    (tmp_path / "url").write_text(f"{SECRET}\n")
    (recipient,) = read_recipients(write(f"recipients: [{{url_file: '{tmp_path / 'url'}'}}]"))
    assert recipient.url == SECRET
    assert "Tr0ub4dor" not in repr(recipient)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "Expected `object`, got `null`"),
        ("recipients: []", "it has no recipient"),
        ("recipients: [{url: 'json://a', x: 1}]", "unknown field `x`"),
        ("include: other.yml", "unknown field `include`"),
        ("recipients: [{name: ann}]", "recipient 1 must have either url or url_file"),
        (f"recipients: [{{url: '{SECRET}', url_file: u}}]", "recipient 1 must have either url or url_file"),
        (f"recipients: [{{url: '{SECRET}', tell: [all]}}]", "recipient 1: tell has 'all', which is none of ends"),
        (f"recipients: [{{url: '{SECRET}', severity: info}}]", "severity has 'info', which is none of warning,"),
        (f"recipients: [{{url: '{SECRET}', outcomes: [fail]}}]", "outcomes has 'fail', which is none of done"),
        ("recipients: [{url: 'Tr0ub4dor'}]", "recipient 1 has no URL such as slack://"),
        ("recipients: [{url_file: '/nonexistent'}]", "recipient 1: cannot read /nonexistent: No such file"),
        (f"recipients: [{{url: '{SECRET}', name: a}}, {{url: '{SECRET}', name: a}}]", "2 recipients have the name a"),
        (f"recipients: [{{url: '{SECRET}'", "it is not YAML"),
        ("recipients: 2026-02-30", "it is not YAML"),
        (f"recipients: [{{url: '{SECRET}'}}]\nrecipients: []", "a key is given twice"),
        (f"recipients: [{{'{SECRET}': a, '{SECRET}': b}}]", "a key is given twice"),
    ],
)
def test_mistake_is_refused_in_one_line_without_a_url(write, text, line):
    with pytest.raises(UsageError) as error:
        read_recipients(write(text))
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert "Tr0ub4dor" not in str(error.value)


def test_file_that_others_may_read_is_refused(write):
    with pytest.raises(UsageError, match=r"other users may read it.*chmod 600"):
        read_recipients(write("recipients: []", 0o644))


def test_missing_file_is_refused_in_one_line(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_recipients(tmp_path / "none.yml")
