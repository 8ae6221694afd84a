"""The file of recipients: where notices go, and which ones. Its URLs are secrets: they appear nowhere else.

recipients:
  - name: ann                      # in logs and metrics; default: the service and a number, such as slack-1
    url: slack://TOKEN/...         # of apprise; or url_file, the path of a file with it
    tell: [ends, findings, acts]   # default: all
    jobs: [llm-*]                  # patterns of job ids; default: all jobs
    labels: {owner: ann}           # labels of the job; default: any
    severity: critical             # the least one of findings; default: warning
    outcomes: [failed, node_lost]  # of ends; default: all
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import yaml

from zmon.errors import UsageError
from zmon.notify.notices import ACTS, ENDS, FINDINGS, Notice
from zmon.schema.ended_launch import OUTCOMES
from zmon.schema.names import severity_order
from zmon.yaml_text import load_yaml

_SEVERITIES = ("warning", "critical")


class Recipient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person, channel or pager, and what it wants."""

    url: str = ""
    url_file: str = ""
    name: str = ""
    tell: tuple[str, ...] = (ENDS, FINDINGS, ACTS)
    jobs: tuple[str, ...] = ("*",)
    labels: Mapping[str, str] = {}
    severity: str = "warning"
    outcomes: tuple[str, ...] = OUTCOMES

    def wants(self, notice: Notice) -> bool:
        """Return True if this notice goes to the recipient. An outcome that only a newer zmon knows always does."""
        if notice.kind not in self.tell or not any(fnmatchcase(notice.job_id, pattern) for pattern in self.jobs):
            return False
        if not self.labels.items() <= notice.labels.items():
            return False
        if notice.kind == ENDS:
            return notice.outcome in self.outcomes or notice.outcome not in OUTCOMES
        return severity_order(notice.severity) >= severity_order(self.severity)

    def __repr__(self) -> str:
        return f"Recipient({self.name})"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recipients: tuple[Recipient, ...]


def read_recipients(path: Path) -> tuple[Recipient, ...]:
    """Return the recipients of a file, each with its URL and a name. Raises UsageError, which repeats no URL."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise _wrong(path, "other users may read it, and its URLs are secrets", f"Run chmod 600 {path}")
        content = load_yaml(path.read_text())
        recipients = msgspec.convert(content, _File).recipients
    except OSError as error:
        raise _wrong(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _wrong(path, "it is not UTF-8") from error
    except msgspec.ValidationError as error:
        raise _wrong(path, str(error)) from None
    except (ValueError, yaml.YAMLError):  # 2026-02-30 is a ValueError; the text of both repeats a line of the file
        raise _wrong(path, "it is not YAML, or a key is given twice") from None
    if not recipients:
        raise _wrong(path, "it has no recipient")
    numbers: Counter[str] = Counter()  # of recipients so far, by service
    recipients = tuple(
        _complete(path, position, recipient, numbers) for position, recipient in enumerate(recipients, start=1)
    )
    for name, number in Counter(recipient.name for recipient in recipients).items():
        if number > 1:
            raise _wrong(path, f"{number} recipients have the name {name}")
    return recipients


def _complete(path: Path, position: int, recipient: Recipient, numbers: Counter[str]) -> Recipient:
    """Return the recipient at this position with its URL and a name, and count it in `numbers`. Raises UsageError."""
    place = f"recipient {position}"
    if bool(recipient.url) == bool(recipient.url_file):
        raise _wrong(path, f"{place} must have either url or url_file")
    _check(path, place, "tell", recipient.tell, (ENDS, FINDINGS, ACTS))
    _check(path, place, "outcomes", recipient.outcomes, OUTCOMES)
    _check(path, place, "severity", (recipient.severity,), _SEVERITIES)
    url = recipient.url
    if recipient.url_file:
        try:
            url = Path(recipient.url_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise _wrong(path, f"{place}: cannot read {recipient.url_file}: {reason}") from error
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme.isalnum():
        raise _wrong(path, f"{place} has no URL such as slack://…")
    numbers[scheme] += 1
    return msgspec.structs.replace(recipient, url=url, name=recipient.name or f"{scheme}-{numbers[scheme]}")


def _check(path: Path, place: str, key: str, words: Iterable[str], known: tuple[str, ...]) -> None:
    for word in words:
        if word not in known:
            raise _wrong(path, f"{place}: {key} has {word!r}, which is none of {', '.join(known)}")


def _wrong(path: Path, cause: str, next_step: str = "docs/notices.md shows such a file") -> UsageError:
    return UsageError(f"cannot use {path}", cause, next_step)
