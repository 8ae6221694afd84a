"""`zmon notify`: check the file of recipients, and send a test notice to each."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from zmon.format import listed
from zmon.notify import AppriseService, Recipient, read_recipients
from zmon.notify.notices import ACTS, ENDS, FINDINGS, Notice
from zmon.schema.ended_launch import DONE

_BODY = "This is a test of zmon notify. No job has ended."
_TEST_NOTICE = Notice(id="test", kind=ENDS, job_id="test", labels={}, title="zmon: a test", body=_BODY, outcome=DONE)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--test", "is_test", is_flag=True, help="Send a test notice to each recipient, and print what came back.")
def notify(file: Path, is_test: bool) -> None:
    """Check FILE, which has the recipients of notices, and list what each of them wants.

    Exit codes: 0 success, 1 a test notice was not sent, 2 misuse (such as a wrong file).
    """
    recipients = read_recipients(file)
    services = {recipient.name: AppriseService(recipient) for recipient in recipients}
    failed = False
    for recipient in recipients:
        result = _wanted_notices(recipient)
        if is_test:
            began = time.monotonic()
            reason = services[recipient.name].send(_TEST_NOTICE)
            failed = failed or bool(reason)
            result = f"not sent: {reason}" if reason else f"sent in {time.monotonic() - began:.1f} s"
        click.echo(f"{recipient.name}: {result}")
    if failed:
        sys.exit(1)


def _wanted_notices(recipient: Recipient) -> str:
    """Return the notices that a recipient wants, and the jobs that they are about, as a line."""
    labels = [f"{name}={value}" for name, value in recipient.labels.items()]
    kinds = []
    if ENDS in recipient.tell:
        kinds.append(f"ends ({listed(recipient.outcomes)})")
    if FINDINGS in recipient.tell:
        kinds.append(f"findings (at least {recipient.severity})")
    if ACTS in recipient.tell:
        kinds.append(f"acts (on findings of at least {recipient.severity})")
    return f"{listed(kinds)} of jobs {listed(recipient.jobs)}{f' with {listed(labels)}' if labels else ''}"
