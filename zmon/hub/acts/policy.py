"""The policy of a site: which findings ask for which act. Only `read_policy` reads a file; all else is pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from zmon.detectors import ALL
from zmon.errors import UsageError
from zmon.hub.alert_labels import AlertLabels, read_alert_labels
from zmon.schema.act import ACTS, CAPTURE, END_JOB, ENFORCE, KILL_CULPRIT, OBSERVE, STOP_RESTARTS
from zmon.schema.finding import Finding
from zmon.schema.names import DEVICE, LINK, LOCK, PROCESS_STATE, SEQUENCE, STACKS, STEPS
from zmon.yaml_text import load_yaml

PAGE = "docs/act.md"
CRASH_LOOP = "crash_loop"
_LEAST_CONFIDENCE = 0.8  # what collectives and stacks prove has 0.8 to 0.9, what a process state proves 0.97
# A finding must ask for an act for at least this long: by then the agents report all ranks that a scheduler suspended.
_LEAST_WAIT_SECONDS = 2.0
_MOST_WAIT_SECONDS = 3600.0
_MAX_RULES = 32
_MAX_OVERRIDE = 160  # characters
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9_-]{1,64}")  # of a rule; also part of the name of a file
_CAUSES = tuple(sorted({cause for detector in ALL for cause in detector.causes}))
# The proofs that justify an act. A lock proves that a rank is gone: there is nothing to kill. Silence proves nothing.
_PROOFS = {
    CAPTURE: (LOCK, PROCESS_STATE, LINK, SEQUENCE, STACKS, DEVICE, STEPS),
    KILL_CULPRIT: (PROCESS_STATE, SEQUENCE, STACKS),
    END_JOB: (LOCK, PROCESS_STATE, LINK, SEQUENCE, STACKS, DEVICE, STEPS),
    STOP_RESTARTS: (LOCK,),
}


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as it is in the file, not checked yet."""

    name: str
    causes: tuple[str, ...]
    act: str
    proofs: tuple[str, ...] = ()
    min_confidence: float = _LEAST_CONFIDENCE
    wait_seconds: float = _LEAST_WAIT_SECONDS
    labels: dict[str, object] = {}
    mode: Literal["observe", "enforce"] = "observe"
    override: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[_Rule, ...]


class ActRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: a finding with one of these causes and proofs, about a job with these labels, asks for an act."""

    name: str
    causes: tuple[str, ...]
    proofs: tuple[str, ...]
    min_confidence: float
    wait_seconds: float  # the finding must ask for the act for this long; meanwhile it may heal
    labels: AlertLabels
    act: str
    mode: str
    override: str  # who allows the rule to act without a score, and why; "": it needs a score

    def asks(self, finding: Finding, labels: Mapping[str, str]) -> bool:
        """Return True if the rule asks for its act about this finding; `labels` are those of the job.

        Silence is no proof, and a finding that is not critical may heal: neither ever asks for an act.
        """
        if finding.severity != "critical" or finding.proof not in self.proofs or finding.cause not in self.causes:
            return False
        has_all_labels = self.labels.accepted(labels).keys() == self.labels.patterns.keys()
        return has_all_labels and finding.confidence >= self.min_confidence


class Policy(msgspec.Struct, frozen=True):
    """The rules of a site, in their order: the first that asks for an act decides."""

    rules: tuple[ActRule, ...] = ()

    @property
    def enforced(self) -> list[str]:
        """The names of the rules that ask agents for acts."""
        return [rule.name for rule in self.rules if rule.mode == ENFORCE and rule.act != CAPTURE]

    def rule(self, finding: Finding, labels: Mapping[str, str]) -> ActRule | None:
        """Return the first rule that asks for an act about this finding, or None."""
        return next((rule for rule in self.rules if rule.asks(finding, labels)), None)


def read_policy(path: Path) -> Policy:
    """Return the policy in a file. Raises UsageError."""
    try:
        file = msgspec.convert(load_yaml(path.read_text()), _File)
    except OSError as error:
        raise _wrong(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _wrong(path, "it is not UTF-8") from error
    except msgspec.ValidationError as error:
        raise _wrong(path, str(error)) from error
    except (ValueError, yaml.YAMLError) as error:  # 2026-02-30 is a ValueError
        raise _wrong(path, f"it is not YAML: {' '.join(str(error).split())}") from error
    if not 0 < len(file.rules) <= _MAX_RULES:
        raise _wrong(path, f"it has {len(file.rules)} rules, and may have 1 to {_MAX_RULES}")
    names = [rule.name for rule in file.rules]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(path, f"two rules have the name {name}")
    return Policy(tuple(_checked(path, rule) for rule in file.rules))


def _checked(path: Path, rule: _Rule) -> ActRule:
    """Return the rule. Raises UsageError if a word in it is unknown, or if its values contradict each other."""
    if not _NAME.fullmatch(rule.name):
        raise _wrong(
            path, f"the name {rule.name!r} of a rule is not 1 to 64 of A-Z, a-z, 0-9, - and _, with a letter or digit"
        )
    place = f"rule {rule.name}"
    if not rule.causes:
        raise _wrong(path, f"{place} has no causes")
    _check(path, f"{place}: act", (rule.act,), ACTS)
    _check(path, f"{place}: causes", rule.causes, _CAUSES)
    _check(path, f"{place}: proofs of {rule.act}", rule.proofs, _PROOFS[rule.act])
    if not 0 < rule.min_confidence <= 1:
        raise _wrong(path, f"{place}: min_confidence is {rule.min_confidence:g}, and must be above 0 and at most 1")
    if not _LEAST_WAIT_SECONDS <= rule.wait_seconds <= _MOST_WAIT_SECONDS:
        allowed = f"{_LEAST_WAIT_SECONDS:g} to {_MOST_WAIT_SECONDS:g}"
        raise _wrong(path, f"{place}: wait_seconds is {rule.wait_seconds:g}, and must be {allowed}")
    if rule.act == STOP_RESTARTS and rule.causes != (CRASH_LOOP,):
        raise _wrong(path, f"{place}: {STOP_RESTARTS} is for the cause {CRASH_LOOP} alone")
    if len(rule.override) > _MAX_OVERRIDE:
        raise _wrong(
            path, f"{place}: its override has more than {_MAX_OVERRIDE} letters, and is part of each audit line"
        )
    if rule.override and rule.mode == OBSERVE:
        raise _wrong(path, f"{place} has an override, but it only observes")
    labels = read_alert_labels(rule.labels, f"{place}.labels")
    proofs = rule.proofs or _PROOFS[rule.act]
    return ActRule(**msgspec.structs.asdict(rule) | {"proofs": proofs, "labels": labels})


def _check(path: Path, place: str, words: Iterable[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            raise _wrong(path, f"{place} has {word!r}, which is none of {', '.join(known)}")


def _wrong(path: Path, cause: str) -> UsageError:
    return UsageError(f"cannot use {path}", cause, f"{PAGE} shows such a file")
