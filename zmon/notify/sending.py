"""Send one notice by apprise. The URL of a recipient is a secret, and texts that leave this module do not repeat it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from zmon.errors import UsageError, need
from zmon.format import plain
from zmon.notify.notices import Notice
from zmon.notify.recipients import Recipient

TIMEOUT_SECONDS = 20.0  # for one message; a service that is slower is tried again
_MIN_SECRET_LETTERS = 4  # shorter parts of a URL occur in any text
_MAX_REASON_LETTERS = 200
# Where a space makes plain text of a mention such as `@here` or `<!channel>`: a job must not call a whole channel.
_MENTION = re.compile(r"(?<=<)(?=!)|(?<=@)(?=here|everyone|channel|all\b)")
_PARTS = re.compile(r"[/?#&=:@,;]+")
# Parts of URLs that are no secrets, and that reasons repeat.
_PUBLIC = frozenset({"https", "http", "true", "false", "localhost", "127.0.0.1", "text", "html", "markdown"})


def scrubber(url: str) -> Callable[[str], str]:
    """Return a function that makes a text plain, and replaces the URL and its parts by `***`.

    The host, parts that are no secrets, and parts of fewer than four letters stay, so that the text says what failed.
    """
    rest = url.partition("://")[2]
    parts = {part for text in (rest, unquote(rest)) for part in _PARTS.split(text)}
    secrets = [url, rest, *parts, *(unquote(part) for part in parts)]
    host = urlsplit(url).hostname or ""
    hidden = {text for text in secrets if len(text) >= _MIN_SECRET_LETTERS and text not in _PUBLIC and text != host}
    longest_first = sorted(hidden, key=len, reverse=True)

    def scrub(text: str) -> str:
        for secret in longest_first:
            text = text.replace(secret, "***")
        return plain(text)

    return scrub


class AppriseService:
    """Sends notices to one recipient. Raises PartFailed without apprise, and UsageError if it does not know the URL."""

    def __init__(self, recipient: Recipient) -> None:
        need("apprise", "sending notices", "notify")
        import apprise  # 0.2 s and 25 MiB, only where there are recipients

        logging.getLogger("apprise").propagate = False  # its lines may have parts of URLs
        asset = apprise.AppriseAsset(
            app_id="zmon", app_desc="zmon", app_url="", http_redirects=False, storage_mode="memory", async_mode=False
        )
        self._service = apprise.Apprise(asset=asset)
        try:
            self._scrub = scrubber(recipient.url)
            is_known = self._service.add(recipient.url)
        except Exception:  # a wrong address, or anything from a plug-in; the text may repeat the URL
            is_known = False
        if not is_known:
            scheme = recipient.url.partition("://")[0]
            cause = f"apprise does not know this {scheme}:// URL"
            next_step = "Its form is on https://appriseit.com/services/"
            raise UsageError(f"cannot send notices to {recipient.name}", cause, next_step)

    def send(self, notice: Notice) -> str:
        """Send a notice. Return why it failed, or an empty text."""
        reasons: list[str] = []

        def note(entry: Any, service: Any) -> None:
            reasons.append(str(entry.message))

        try:
            is_sent = self._service.notify(
                body=_MENTION.sub(" ", notice.body),
                title=_MENTION.sub(" ", notice.title),
                notify_type=notice.style,
                body_format="text",
                interpret_escapes=False,
                timeout=TIMEOUT_SECONDS,
                log_callback=note,
                log_level=logging.WARNING,
            )
        except Exception as error:  # a plug-in may raise anything; the next message may be sent
            return self._scrub(f"{type(error).__name__}: {error}")[:_MAX_REASON_LETTERS]
        if is_sent:
            return ""
        return self._scrub(" ".join(dict.fromkeys(reasons)) or "no answer in time")[:_MAX_REASON_LETTERS]
