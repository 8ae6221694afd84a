"""`zmon completion`: print the script that lets a shell complete commands, options and ids.

click completes commands and options. Ids come from the hub. If the hub does not answer in time, there are no ids and no
message, because a shell that waits seems to hang.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from zmon.cli.options import HubOptions
from zmon.client import Hub
from zmon.errors import ZmonError

_REQUEST_SECONDS = 1.0
_PROCESS_SECONDS = 1.5  # after this time the process ends, because the resolution of the hub's name has no timeout
_ID = re.compile(r"[A-Za-z0-9._-]+")  # an id may come from another host, so it must have no character of a shell


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete zmon's commands, options and ids.

    Put one of these lines into the file that your shell reads at its start:

    \b
    eval "$(zmon completion bash)"        # ~/.bashrc
    eval "$(zmon completion zsh)"         # ~/.zshrc, after compinit
    zmon completion fish | source         # ~/.config/fish/config.fish
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None  # click has all three
    click.echo(shell_class(context.find_root().command, {}, "zmon", "_ZMON_COMPLETE").source())


def ids_of_hub(
    read: Callable[[Hub], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return the completion of an option or argument of a command that has the options of a hub."""

    def complete(context: click.Context, _: click.Parameter, beginning: str) -> list[CompletionItem]:
        values = context.params
        earlier_handler = signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, _PROCESS_SECONDS)
        try:
            options = HubOptions(values["hub"], values["data_dir"], values["http"])
            hub = Hub(options.url, http=options.http, timeout=_REQUEST_SECONDS)
            ids = [name for name in read(hub) if name.startswith(beginning) and _ID.fullmatch(name)]
        except ZmonError:
            return []
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, earlier_handler)
        return [CompletionItem(name) for name in ids]

    return complete


job_ids = ids_of_hub(lambda hub: [job.job_id for job in hub.jobs().jobs])
incident_ids = ids_of_hub(lambda hub: [incident.id for incident in hub.incidents().incidents])
