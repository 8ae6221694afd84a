"""The stack of one machine: Prometheus, Alertmanager, agent, hub and dashboard as supervised child processes.

`part` starts and ends the processes, `ports` reserves their ports, `config` has the configuration of Prometheus and
Alertmanager, `password` that of Alertmanager's user, and `manual` the rules and documents that they need. `demo` is the
training of `zmon demo`, and `replay` plays an incident again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from zmon.errors import PartFailed, UsageError, install_command, is_installed
from zmon.stack import manual, password
from zmon.stack.config import alertmanager_web_yaml, alertmanager_yaml, allowed_origins, prometheus_yaml
from zmon.stack.part import Part, become_subreaper, end_all
from zmon.stack.ports import ReservedPort
from zmon.steplog.files import lock_directory, replace_file
from zmon.web import http_client
from zmon.web.addresses import AGENT_PORT, HUB_PORT
from zmon.web.client import basic_auth

START_TIMEOUT_SECONDS = 60.0
_MAX_DEATHS_AT_START = 2  # of a part; after a further one, the start has failed
RULES = ("zmon.yaml", "hardware.yaml", "panels.yaml")  # file names in dashboards/rules


@dataclass(frozen=True)
class StackConfig:
    """Options of `zmon up`."""

    data_dir: Path
    box_dir: Path | None  # None: the directories of all users
    host: str
    webhook: str | None = None  # the URL to which Alertmanager posts alerts; None: to nowhere
    webhook_warnings: str | None = None  # another URL for warnings; None: that of `webhook`
    agent_port: int = AGENT_PORT
    hub_port: int = HUB_PORT
    prometheus_port: int = 9090
    alertmanager_port: int = 9093
    dashboard_port: int = 8501
    config_file: Path | None = None  # the file of `--config`, which the daemons read as well
    notify_file: Path | None = None  # the file with the recipients of the hub's notices
    act_file: Path | None = None  # the policy of the hub's acts; None: there are neither acts nor intents


@dataclass(frozen=True)
class Urls:
    """The URLs at which the parts answer; `stack.json` has them once the stack is ready."""

    agent: str
    hub: str
    prometheus: str
    alertmanager: str
    dashboard: str


class Stack:
    """The parts of the stack, from start to end."""

    has_dashboard = True

    def __init__(self, config: StackConfig, say: Callable[[str], None]) -> None:
        if self.has_dashboard and not is_installed("streamlit"):
            command = install_command("dashboard")
            say(f"the dashboard does not run: streamlit is not installed. Run {command}, then start again")
            self.has_dashboard = False
        self._config, self._say = config, say
        self._lock = _lock(config.data_dir)  # its descriptor, open until this process ends
        self._ports: list[ReservedPort] = []
        names = [field.name for field in fields(Urls)]
        self.urls = Urls(**{name: self._reserve(name, getattr(config, f"{name}_port")) for name in names})
        self.parts = self._make_parts()
        self._watchers: list[asyncio.Task[None]] = []
        become_subreaper()

    async def start(self) -> None:
        """Start every part. `ready` waits until they work."""
        for part in self.parts:
            await part.start()
            self._watchers.append(asyncio.create_task(part.keep_running(self._say)))

    async def ready(self) -> None:
        """Wait until every part is healthy, then write their URLs to `stack.json`. Raises PartFailed if one is not."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        async with http_client.session() as session:
            for part in self.parts:
                while not await part.is_healthy(session):
                    if time.monotonic() > deadline or len(part.deaths) > _MAX_DEATHS_AT_START:
                        raise PartFailed(f"{part.name} does not work", part.last_lines(3), f"See its log: {part.log}")
                    await asyncio.sleep(0.1)
        (self._config.data_dir / "stack.json").write_text(json.dumps(asdict(self.urls)))

    async def unhealthy(self) -> list[str]:
        """Return the names of the parts that do not answer now, or died since the start."""
        async with http_client.session() as session:
            return [part.name for part in self.parts if part.deaths or not await part.is_healthy(session)]

    def add(self, part: Part) -> None:
        """Add a program that ends together with the others; it is not restarted if it dies."""
        self.parts.append(part)

    async def stop(self) -> None:
        """End all parts within five seconds."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.to_thread(end_all, self.parts)
        for port in self._ports:
            port.release()
        (self._config.data_dir / "stack.json").unlink(missing_ok=True)

    def _reserve(self, name: str, preferred: int) -> str:
        """Reserve a port for a part, the preferred one if it is free. Return the URL at which the part will answer."""
        port = ReservedPort(preferred)
        self._ports.append(port)
        if port.number != preferred:
            self._say(f"port {preferred} is in use: {name} listens on port {port.number}")
        return f"http://127.0.0.1:{port.number}"

    def _zmon(self, command: str, *options: str) -> list[str]:
        """Return the command line of a daemon, with the configuration file of the stack."""
        file = self._config.config_file
        config = [] if file is None else ["--config", str(file.absolute())]
        return [sys.executable, "-m", "zmon", *config, command, *options]

    def _agents(self) -> list[Part]:
        """Return the agents of the stack: one, for this machine."""
        config = self._config
        command = self._zmon(
            "agent", "--port", port_of(self.urls.agent), "--host", config.host, "--data-dir", str(config.data_dir),
            *([] if config.box_dir is None else ["--box-dir", str(config.box_dir)]),
            *([] if config.act_file is None else ["--allow-actions"]),
        )  # fmt: skip
        return [self._part("agent", self.urls.agent, "/healthz", command)]

    @property
    def _agent_urls(self) -> list[str]:
        """The URLs of the agents, which Prometheus and the hub ask."""
        return [self.urls.agent]

    def _make_parts(self) -> list[Part]:
        """Write the files that the parts read, and return the parts in the order of their start."""
        self._write_files()
        parts = [self._prometheus(), self._alertmanager(), *self._agents(), self._hub()]
        return [*parts, self._dashboard()] if self.has_dashboard else parts

    def _write_files(self) -> None:
        config, urls = self._config, self.urls
        data = config.data_dir
        for directory in ("logs", "prometheus", "alertmanager"):
            (data / directory).mkdir(parents=True, exist_ok=True)
        prometheus_config = prometheus_yaml(
            agents=[_address(url) for url in self._agent_urls],
            hub=_address(urls.hub),
            alertmanager=_address(urls.alertmanager),
            rules=[str(manual.package() / "rules" / name) for name in RULES],
            dashboard=urls.dashboard,
            docs=str(manual.folder()),
            password_file=self._password_file,
        )
        (data / "prometheus.yml").write_text(prometheus_config)
        web_config = alertmanager_web_yaml(password.bcrypt_hash(password.password(data)))
        replace_file(data / "alertmanager-web.yml", [web_config.encode()])
        (data / "alertmanager.yml").write_text(alertmanager_yaml(config.webhook, config.webhook_warnings))

    @property
    def _password_file(self) -> str:
        return str((self._config.data_dir / password.FILE).absolute())

    def _part(self, name: str, url: str, health_path: str, command: Sequence[str], **headers: str) -> Part:
        """Return a part with a log of its name; `headers` are those of requests for its health."""
        log = self._config.data_dir / "logs" / f"{name}.log"
        return Part(name, command, url, url + health_path, log, headers=headers)

    def _prometheus(self) -> Part:
        url, data = self.urls.prometheus, self._config.data_dir
        command = [
            find_program("prometheus"),
            f"--config.file={data / 'prometheus.yml'}",
            f"--storage.tsdb.path={data / 'prometheus'}",
            f"--web.listen-address={_address(url)}",
            f"--web.cors.origin={allowed_origins(self.urls.dashboard)}",
            "--log.level=warn",
        ]
        return self._part("prometheus", url, "/-/ready", command)

    def _alertmanager(self) -> Part:
        url, data = self.urls.alertmanager, self._config.data_dir
        command = [
            find_program("prometheus-alertmanager", "alertmanager"),
            f"--config.file={data / 'alertmanager.yml'}",
            f"--storage.path={data / 'alertmanager'}",
            f"--web.listen-address={_address(url)}",
            f"--web.config.file={data / 'alertmanager-web.yml'}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]
        login = basic_auth(password.USER, password.password(data))
        return self._part("alertmanager", url, "/-/ready", command, **login)

    def _hub(self) -> Part:
        config, url = self._config, self.urls.hub
        files = {"--notify-file": config.notify_file, "--act": config.act_file}
        options = [word for flag, file in files.items() if file is not None for word in (flag, str(file))]
        agents = ",".join(self._agent_urls)
        command = self._zmon(
            "hub", "--port", port_of(url), "--agents", agents, "--data-dir", str(config.data_dir), *options
        )
        return self._part("hub", url, "/healthz", command)

    def _dashboard(self) -> Part:
        urls = self.urls
        url = urls.dashboard
        command = self._zmon("dashboard", "--port", port_of(url), "--hub", urls.hub, "--prometheus", urls.prometheus)
        part = self._part("dashboard", url, "/_stcore/health", command)
        part.env = {
            "ZMON_ALERTMANAGER_URL": urls.alertmanager,
            "ZMON_ALERTMANAGER_USER": password.USER,
            "ZMON_ALERTMANAGER_PASSWORD_FILE": self._password_file,
        }
        return part


def find_program(*names: str) -> str:
    """Return the path of a program that may have several names. Raises PartFailed with the packages to install."""
    for name in names:
        if path := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin"):
            return path
    next_step = "Run apt-get install prometheus prometheus-alertmanager (as root), then try again"
    raise PartFailed(f"{names[0]} is not installed", "zmon needs it for history and alerts", next_step)


def _address(url: str) -> str:
    return url.removeprefix("http://")


def port_of(url: str) -> str:
    return url.rsplit(":", 1)[1]


def _lock(data_dir: Path) -> int:
    """Lock the data directory against a second stack. Raises UsageError if it is in use or not writable."""
    end_it = "End it first with Ctrl-C, or choose another directory with --data-dir"
    try:
        return lock_directory(data_dir, "lock", "another zmon demo or up is running", end_it)
    except OSError as error:
        choose = "Choose another directory with --data-dir"
        raise UsageError(f"cannot write to {data_dir}", error.strerror or str(error), choose) from error
