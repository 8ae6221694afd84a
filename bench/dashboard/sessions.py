"""Viewers without a browser: what the server does for each of them, and nothing of what drawing it would take.

A session speaks as Streamlit's page does (subprotocol `streamlit`, messages in protobuf): it asks for a page, and then
as often as the page says for what moves on it. What it has been sent it does not want to be sent again, as a browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

_STREAM = "_stcore/stream"
_SECONDS = 60.0  # after which a page does not come any more
_MOST_BYTES = 1 << 28  # of a message


@dataclass
class Session:
    """One viewer of one view."""

    socket: aiohttp.ClientWebSocketResponse
    page: str
    query: str
    refreshes: list[float] = field(default_factory=list)  # seconds each took
    _hash: str = ""
    _sent: set[str] = field(default_factory=set)
    _sent_before: set[str] = field(default_factory=set)
    _again: dict[str, float] = field(default_factory=dict)  # by fragment, seconds from one refresh to the next

    async def load(self) -> float:
        """The page, once. Seconds from the wish to the last of it."""
        return await self._run("")

    async def watch(self) -> None:
        """Refresh for ever, as often as the page says; one that takes longer is not asked for twice."""
        while self._again:
            every, began = min(self._again.values()), time.monotonic()
            for fragment in list(self._again):
                if fragment in self._again:  # the one before may have had all of the page drawn anew
                    self.refreshes.append(await self._run(fragment))
            await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))

    async def _run(self, fragment: str) -> float:
        wish = BackMsg()
        state = wish.rerun_script
        state.query_string, state.page_name, state.page_script_hash = self.query, self.page, self._hash
        state.fragment_id, state.is_auto_rerun = fragment, bool(fragment)
        state.cached_message_hashes.extend(self._sent | self._sent_before)
        self._sent, self._sent_before = set(), self._sent
        began = time.perf_counter()
        await self.socket.send_bytes(wish.SerializeToString())
        while True:
            told = ForwardMsg.FromString(await self.socket.receive_bytes(timeout=_SECONDS))
            match told.WhichOneof("type"):
                case "new_session":
                    self._hash = told.new_session.page_script_hash
                    self._again = self._again if fragment else {}
                case "auto_rerun":
                    self._again[told.auto_rerun.fragment_id] = told.auto_rerun.interval
                case "script_finished" if told.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    fragment = ""  # all of the page comes anew
                case "script_finished":
                    return time.perf_counter() - began
            if told.metadata.cacheable:
                self._sent.add(told.ref_hash or told.hash)


@contextlib.asynccontextmanager
async def opened(url: str, views: Sequence[tuple[str, dict[str, str]]]) -> contextlib.AsyncIterator[list[Session]]:
    """A session for each of these views: the path, and its query."""
    async with aiohttp.ClientSession() as client, contextlib.AsyncExitStack() as stack:
        made = []
        for page, query in views:
            socket = await stack.enter_async_context(
                client.ws_connect(f"{url}/{_STREAM}", protocols=("streamlit",), max_msg_size=_MOST_BYTES)
            )
            made.append(Session(socket, page, urlencode(query)))
        yield made


def load(url: str, page: str, query: dict[str, str]) -> float:
    """Seconds of the server for that page."""

    async def once() -> float:
        async with opened(url, [(page, query)]) as (session,):
            return await session.load()

    return asyncio.run(once())


@dataclass
class Viewers:
    """Those who look at the same time, on a thread of their own."""

    sessions: list[Session] = field(default_factory=list)
    lost: int = 0  # of these, how many the server let down

    def refreshed(self) -> list[float]:
        """Seconds that each refresh since the last look took."""
        found = [seconds for session in self.sessions for seconds in session.refreshes]
        for session in self.sessions:
            session.refreshes.clear()
        return found


@contextlib.contextmanager
def watching(url: str, views: Sequence[tuple[str, dict[str, str]]]) -> Iterator[Viewers]:
    """A viewer for each of these, until the end of the block."""
    viewers, all_there = Viewers(), threading.Event()
    loop = asyncio.new_event_loop()

    async def look() -> None:
        async with opened(url, views) as sessions:
            await asyncio.gather(*(each(session) for session in sessions))

    async def each(session: Session) -> None:
        try:
            await session.load()
            viewers.sessions.append(session)
            if len(viewers.sessions) == len(views):
                all_there.set()
            await session.watch()
        except (aiohttp.ClientError, TimeoutError, TypeError):  # closed: what came is no bytes
            viewers.lost += 1

    task = loop.create_task(look())

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        if not all_there.wait(_SECONDS * 2):
            print(f"  {len(viewers.sessions)} of {len(views)} viewers see a page within {_SECONDS * 2:g} s")
        yield viewers
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
