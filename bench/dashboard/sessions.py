"""Viewers without a browser: they measure the work of the server without the time for drawing.

A session speaks the protocol of Streamlit's page (subprotocol `streamlit`, messages in protobuf). It requests a page,
then its live parts at the interval that the page sets. Like a browser, it tells the server which messages it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

_STREAM = "_stcore/stream"
_TIMEOUT_SECONDS = 60.0  # the limit for a page
_MAX_BYTES = 1 << 28  # the limit for a message


@dataclass
class Session:
    """One viewer of one view."""

    socket: aiohttp.ClientWebSocketResponse
    page: str
    query: str
    refreshes: list[float] = field(default_factory=list)  # seconds of each refresh
    _hash: str = ""  # of the page's script, as the server sends it
    _received: set[str] = field(default_factory=set)  # hashes of messages in the current run
    _received_before: set[str] = field(default_factory=set)  # in the run before
    _intervals: dict[str, float] = field(default_factory=dict)  # by fragment, seconds between two refreshes

    async def load(self) -> float:
        """Load the page once; return the seconds from the request to the last message."""
        return await self._run("")

    async def watch(self) -> None:
        """Refresh for ever at the interval that the page sets. A slow refresh delays the next one."""
        while self._intervals:
            every = min(self._intervals.values())
            began_at = time.monotonic()
            for fragment in list(self._intervals):
                if fragment in self._intervals:  # the previous refresh may have caused a run of the whole page
                    self.refreshes.append(await self._run(fragment))
            await asyncio.sleep(max(0.0, every - (time.monotonic() - began_at)))

    async def _run(self, fragment: str) -> float:
        """Run a live part of the page, or the whole page for ""; return the seconds until its last message."""
        request = BackMsg()
        state = request.rerun_script
        state.query_string = self.query
        state.page_name = self.page
        state.page_script_hash = self._hash
        state.fragment_id = fragment
        state.is_auto_rerun = bool(fragment)
        state.cached_message_hashes.extend(self._received | self._received_before)
        self._received, self._received_before = set(), self._received
        began_at = time.perf_counter()
        await self.socket.send_bytes(request.SerializeToString())
        while True:
            message = ForwardMsg.FromString(await self.socket.receive_bytes(timeout=_TIMEOUT_SECONDS))
            match message.WhichOneof("type"):
                case "new_session":
                    self._hash = message.new_session.page_script_hash
                    self._intervals = self._intervals if fragment else {}
                case "auto_rerun":
                    self._intervals[message.auto_rerun.fragment_id] = message.auto_rerun.interval
                case "script_finished" if message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    fragment = ""  # the whole page runs again
                case "script_finished":
                    return time.perf_counter() - began_at
            if message.metadata.cacheable:
                self._received.add(message.ref_hash or message.hash)


@contextlib.asynccontextmanager
async def open_sessions(url: str, views: Sequence[tuple[str, dict[str, str]]]) -> AsyncIterator[list[Session]]:
    """Open a session for each of these pairs of a page's path and its query."""
    async with aiohttp.ClientSession() as client, contextlib.AsyncExitStack() as stack:
        sessions = []
        for page, query in views:
            socket = await stack.enter_async_context(
                client.ws_connect(f"{url}/{_STREAM}", protocols=("streamlit",), max_msg_size=_MAX_BYTES)
            )
            sessions.append(Session(socket, page, urlencode(query)))
        yield sessions


def load(url: str, page: str, query: dict[str, str]) -> float:
    """Return the seconds that the server takes for this page."""

    async def load_page() -> float:
        async with open_sessions(url, [(page, query)]) as (session,):
            return await session.load()

    return asyncio.run(load_page())


@dataclass
class Viewers:
    """Viewers at the same time, in a separate thread."""

    sessions: list[Session] = field(default_factory=list)
    num_lost: int = 0  # viewers whose connection broke or timed out

    def take_refreshes(self) -> list[float]:
        """Return the seconds of each refresh since the last call."""
        seconds = [seconds for session in self.sessions for seconds in session.refreshes]
        for session in self.sessions:
            session.refreshes.clear()
        return seconds


@contextlib.contextmanager
def watching(url: str, views: Sequence[tuple[str, dict[str, str]]]) -> Iterator[Viewers]:
    """Keep a viewer on each of these views until the end of the block."""
    viewers = Viewers()
    all_loaded = threading.Event()
    loop = asyncio.new_event_loop()

    async def watch_all() -> None:
        async with open_sessions(url, views) as sessions:
            await asyncio.gather(*(watch(session) for session in sessions))

    async def watch(session: Session) -> None:
        try:
            await session.load()
            viewers.sessions.append(session)
            if len(viewers.sessions) == len(views):
                all_loaded.set()
            await session.watch()
        except (aiohttp.ClientError, TimeoutError, TypeError):  # TypeError: a closed socket returns no bytes
            viewers.num_lost += 1

    task = loop.create_task(watch_all())

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        if not all_loaded.wait(_TIMEOUT_SECONDS * 2):
            print(f"  only {len(viewers.sessions)} of {len(views)} viewers got a page in {_TIMEOUT_SECONDS * 2:g} s")
        yield viewers
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
