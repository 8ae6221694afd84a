"""Targets in files that Prometheus reads too (file_sd_config): JSON or YAML, replaced by an atomic rename."""

from __future__ import annotations

import asyncio
import glob
from pathlib import Path

import aiohttp
import msgspec
import yaml

from zmon.errors import ZmonError
from zmon.hub.discovery.target import PolledSource, in_order, is_url, url
from zmon.yaml_text import load_yaml

_MAX_BYTES = 16 << 20


class TargetGroup(msgspec.Struct, frozen=True):
    """Targets with common labels. `__scheme__` is the only label that matters to zmon."""

    targets: tuple[str, ...]
    labels: dict[str, str] = {}


class FileTargets(PolledSource):
    """The targets in one file, or in all files that a pattern such as `/etc/zmon/agents-*.json` matches."""

    interval_seconds = 5.0

    def __init__(self, pattern: str, scheme: str) -> None:
        """`scheme`: http or https, for targets whose group does not say it."""
        self.name, self._pattern, self._scheme = f"file:{pattern}", pattern, scheme

    async def find(self, session: aiohttp.ClientSession) -> tuple[str, ...]:
        """Return the targets, in a thread."""
        return await asyncio.to_thread(self.read)

    def read(self) -> tuple[str, ...]:
        """Return the targets. Raises ZmonError if a file is missing or broken."""
        paths = sorted(glob.glob(self._pattern))  # noqa: PTH207
        if not paths and not glob.has_magic(self._pattern):
            raise ZmonError(f"cannot read {self._pattern}", "No such file", "Write the file, or correct --agents")
        groups = [group for path in paths for group in _groups(Path(path))]
        urls = [
            url(target, group.labels.get("__scheme__", self._scheme)) for group in groups for target in group.targets
        ]
        if wrong := [text for text in urls if not is_url(text)]:
            raise ZmonError(f"cannot use {self._pattern}", f"{wrong[0]} is not http(s)://HOST:PORT")
        return in_order(urls)


def _groups(path: Path) -> list[TargetGroup]:
    """Return the groups in one file. Raises ZmonError."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ZmonError(f"cannot use {path}", f"it has more than {_MAX_BYTES >> 20} MiB")
        data = path.read_bytes()
        # YAML contains JSON, but the decoder of JSON is faster.
        document = msgspec.json.decode(data) if data.lstrip()[:1] in (b"[", b"{") else load_yaml(data)
        # An empty file, perhaps one that is being written, is an error.
        return msgspec.convert(document, list[TargetGroup])
    except OSError as error:
        raise ZmonError(f"cannot read {path}", str(error.strerror)) from error
    except (ValueError, yaml.YAMLError) as error:  # msgspec's errors are ValueErrors
        reason = " ".join(str(error).split())
        raise ZmonError(
            f"cannot use {path}", reason, 'Write for example [{"targets": ["node-1:9780"]}], as for Prometheus'
        ) from error
