"""Test that what pages say about the program is so: options, variables, alerts, tests, values and numbers.

A number in a page comes from the code by way of NUMBERS, or from a measurement that the page dates. CHANGELOG.md says
what was, and decisions say what was decided, so options there need not exist.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml

from tests.deploy.test_systemd import RANKS, STARTS
from tests.places import REPOSITORY
from tests.test_paths import tracked_files
from zmon.agent import acts as agent_acts
from zmon.agent.acts import ledger, processes
from zmon.agent.config import AgentConfig
from zmon.agent.exported import EXPORT_AFTER_END_SECONDS
from zmon.agent.exported import MAX_JOBS as JOBS_OF_AGENT
from zmon.agent.sources import answering, box_listing, rank_limit, stderr, unread_boxes
from zmon.box import layout
from zmon.box.rank_files import GRACE_SECONDS
from zmon.box.versions import CURRENT
from zmon.cli.main import cli
from zmon.detectors.coverage import Coverage
from zmon.errors import UsageError
from zmon.hub import acts as hub_acts
from zmon.hub import agent_link, config
from zmon.hub.acts import guards, policy, score
from zmon.hub.api.answers import MAX_JOBS as JOBS_OF_HUB
from zmon.hub.discovery import HOLD_SECONDS, dns, file_sd, prometheus
from zmon.probe import device_time
from zmon.probe.autoload.sitecustomize import OLDEST_TORCH
from zmon.probe.hooks import flops
from zmon.schema import limits, names, steps
from zmon.schema.act import ACT_INTERVAL_SECONDS, ActRequest
from zmon.schema.api import endpoints
from zmon.schema.api.endpoint import MAX_ANSWER_BYTES
from zmon.stack import StackConfig
from zmon.web import connections, handshake
from zmon.web.addresses import AGENT_PORT, HUB_PORT
from zmon.web.limits import INTERVAL_SECONDS, MAX_CONNECTIONS
from zmon.web.server import check_bind

pytestmark = pytest.mark.unit

COMMANDS = {line.split()[0]: set(line.split()[1:]) for line in (REPOSITORY / "tests/golden/cli.txt").open()}
VARIABLES = set((REPOSITORY / "tests/golden/environment.txt").read_text().split())
OF_SCRIPTS = {"ZMON_DRAIN"}  # variables of deploy/
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
COMMAND = re.compile(r"(?:^|[\s/`])zmon (?:--config \S+ )?([a-z][a-z-]+)\b((?:(?!\bzmon [a-z]| -- ).)*)")
OPTION = re.compile(r"(?<![\w-])--[a-z](?:[\w.-]*\w)?")
OF_OTHERS = {  # options of other programs, and of our own scripts and trainer, that a page names alone
    *("--alertmanager.url", "--storage.tsdb.path", "--storage.tsdb.retention.time", "--web.external-url"),  # Prometheus
    *("--nnodes", "--nproc-per-node", "--log-dir", "--max-restarts", "--rdzv-endpoint", "--rdzv-id"),  # torchrun
    *("--preset", "--save", "--set", "--strict", "--sharded"),  # our trainer and dashboards.rules
    *("--build-arg", "--shm-size", "--volume"),  # docker
    *("--extra-index-url", "--force-reinstall", "--index-url", "--no-deps"),  # pip
    *("--no-hostname", "--runner.postScriptGC"),
    *("--config", "--help", "--version"),  # zmon itself
    "--cpu-bind",  # srun
    "--password",  # an example of a secret
}


def pages() -> list[str]:
    """Return the pages that say what is."""
    return [file for file in tracked_files() if file.endswith(".md") and file != "CHANGELOG.md"]


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (REPOSITORY / page).read_text()


def wrong_options(text: str) -> Iterator[str]:
    """Yield the options in the code of a page that do not exist: of no command, or not of the command before them."""
    every = set().union(*COMMANDS.values())
    for code in CODE.findall(text):
        if re.fullmatch(r"`--[a-z][^`]*`", code):  # named alone
            yield from (option for option in OPTION.findall(code) if option not in every | OF_OTHERS)
        for line in code.replace("\\\n", " ").split("\n"):
            for command, rest in COMMAND.findall(line.split(" # ")[0]):
                used = OPTION.findall(rest) if command in COMMANDS else []
                yield from (f"{command} {option}" for option in used if option not in COMMANDS[command] | {"--help"})


@pytest.mark.parametrize("page", pages())
def test_options_of_a_page_exist(page):
    assert sorted(wrong_options(text_of(page))) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`zmon agent --without tcp`, `zmon hub --public` and `--insecure-public`", []),
        ("`zmon agent --open`", ["agent --open"]),
        ("```\n/opt/zmon/bin/zmon hub --agents a \\\n  --max-series 5\n```", ["hub --max-series"]),
        ("`--trust-everybody` overrides that", ["--trust-everybody"]),
        ("`zmon run -- torchrun --nnodes 2` and kubectl --context x", []),
    ],
)
def test_options_in_code(text, wrong):
    assert [*wrong_options(text)] == wrong


@pytest.mark.parametrize("page", pages())
def test_variables_of_a_page_exist(page):
    assert set(re.findall(r"\bZMON_[A-Z_]*[A-Z]\b", text_of(page))) - VARIABLES - OF_SCRIPTS == set()


ROW_OF_VARIABLE = re.compile(r"^\| `(ZMON_\w+)` \| (.*?) \|", re.MULTILINE)


def readers_of_variables(command: click.Command, name: str = "zmon") -> Iterator[tuple[str, str, str]]:
    """Yield each variable of the options of a command and its subcommands, with the option and the command."""
    for parameter in command.params:
        variables = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or []
        yield from ((variable, parameter.opts[0], name) for variable in variables)
    for inner_name, inner in getattr(command, "commands", {}).items():
        yield from readers_of_variables(inner, inner_name if name == "zmon" else f"{name} {inner_name}")


def test_variables_are_public_or_named_as_not_public():
    public = [row[0] for row in ROW_OF_VARIABLE.findall(text_of("docs/environment.md"))]
    not_public = set(re.findall(r"`(ZMON_\w+)`", text_of("docs/versions.md")))
    assert public == sorted(VARIABLES - not_public)


def test_page_of_variables_names_the_commands_that_read_them():
    commands = defaultdict(list)
    for variable, option, command in readers_of_variables(cli):
        commands[variable, option].append(command)
    cells = dict(ROW_OF_VARIABLE.findall(text_of("docs/environment.md")))
    for (variable, option), with_option in commands.items():
        if variable.startswith("ZMON_"):
            readers = ", ".join(f"`{name}`" for name in sorted(with_option))
            expected = readers if len(with_option) <= 4 else "all commands with this option"
            assert f"`{option}` of {expected}" in cells[variable]


def alerts() -> set[str]:
    """Return the names of all alerts."""
    files = (REPOSITORY / "dashboards/rules").glob("*.yaml")
    return {name for file in files for name in re.findall(r"^\s*- alert: (\w+)$", file.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("page", pages())
def test_alerts_of_a_page_exist(page):
    assert set(re.findall(r"\bZmon[A-Z]\w+", text_of(page))) - alerts() == set()


@pytest.mark.parametrize("page", pages())
def test_tests_of_a_page_exist(page):
    tests = set(re.findall(r"`(test_\w+)`", text_of(page)))
    sources = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")) if tests else ""
    assert {name for name in tests if f"def {name}(" not in sources} == set()


def test_values_of_the_chart_that_its_page_names_exist():
    values = yaml.safe_load((REPOSITORY / "helm/zmon/values.yaml").read_text())
    text = "".join(map(text_of, ("docs/deploy/kubernetes.md", "docs/deploy/held-gpus.md", "docs/threat-model.md")))
    paths = re.findall(rf"`((?:{'|'.join(values)})(?:\.[A-Za-z]+)+)[`:]", text)
    paths = [path for path in paths if path not in ("tls.crt", "tls.key")]  # keys of Secrets
    assert "boxes.mode" in paths
    for path in paths:
        value = values
        for key in path.split("."):
            assert key in value, path
            value = value[key]


BOX = f"{CURRENT.file_size / 2**20:.1f} MiB"
CONNECTIONS = MAX_CONNECTIONS
AGENT = AgentConfig.__dataclass_fields__
SPANS = {60.0: "a minute", 120.0: "two", 600.0: "ten minutes", 1800.0: "30 minutes", 3600.0: "an hour"}
WORDS = {3: "three", 4: "four", 5: "fifth"}
GRACE = ActRequest.__struct_defaults__[-1]
NUMBERS = {
    "README.md": [f"127.0.0.1:{StackConfig.dashboard_port}"],
    "SECURITY.md": [
        f"last {stderr.TAIL_BYTES >> 10} KiB of the stderr",
        f"TCP connection to port {answering._PORT} (`discard`)",
        f"{AGENT['max_evidence'].default} requests for evidence are answered at a time",
    ],
    "docs/act.md": [
        f"| at most {guards.MAX_CULPRITS} ranks, and at most half of the job |",
        f"SIGKILL to it and its ranks {GRACE:.0f} s later",
        f"# default: {policy._LEAST_CONFIDENCE}",
        f"; default: {policy._LEAST_WAIT_SECONDS:.0f}, at most {policy._MOST_WAIT_SECONDS:.0f}",
        f"what happened in the {SPANS[score.SCORE_SECONDS]} after it",
        f"{guards.NEEDED_RIGHT} right and no wrong intents of the cause",
        f"host was set less than {SPANS[guards.CLOCK_SECONDS]} ago.",
        f"zmon acted on the job less than {SPANS[ACT_INTERVAL_SECONDS]} ago.",
        f"more than {guards.MAX_CULPRITS} ranks, or more than half of the job, are at fault",
        f"for at most {WORDS[hub_acts.CAPSULE_SECONDS]} seconds",
        f"ask within {SPANS[guards.STORM_SECONDS]} for acts in {WORDS[guards.STORM_JOBS]} jobs or on "
        f"{WORDS[guards.STORM_HOSTS]} hosts",
        f"decided again {SPANS[hub_acts.AGAIN_SECONDS]} later",
        f"one act on a job in {SPANS[ACT_INTERVAL_SECONDS]}, "
        f"and at most {WORDS[agent_acts.MAX_ACTS_OF_HOST]} acts on its host "
        f"in {SPANS[agent_acts.HOST_SECONDS]}. A {WORDS[agent_acts.MAX_ACTS_OF_HOST + 1]} one trips",
        f"launched again within {SPANS[score.RELAUNCH_SECONDS]} minutes of the act, and makes steps again within "
        f"{SPANS[score.INIT_SECONDS]} of it",
    ],
    "docs/agent-acts.md": [
        f"is {GRACE:.0f} s, or what the hub asks for, from {agent_acts._MIN_GRACE_SECONDS:.0f} to "
        f"{agent_acts._MAX_GRACE_SECONDS:.0f} s",
        f"{WORDS[processes._LOOKS]} times within {(processes._LOOKS - 1) * processes._LOOK_SECONDS:.2f} s",
        f"A job may have one act in {SPANS[ACT_INTERVAL_SECONDS]},",
        f"A host may have {WORDS[agent_acts.MAX_ACTS_OF_HOST]} acts in {SPANS[agent_acts.HOST_SECONDS]}. "
        f"A {WORDS[agent_acts.MAX_ACTS_OF_HOST + 1]} request",
        f"At {ledger.ROTATE_BYTES >> 20} MiB a new file begins with the last {ledger._MAX_ACTS:,} acts",
    ],
    "docs/agent.md": [
        f"at most {JOBS_OF_AGENT} jobs",
        f"The series of a rank end {EXPORT_AFTER_END_SECONDS:.0f} s after the rank ended",
        f"Its box is deleted after {GRACE_SECONDS / 60:.0f} minutes",
        f"at most {rank_limit.MAX_RANKS} living ranks, and keeps {rank_limit.MAX_DEAD:,} dead ones",
        f"looks at {box_listing.MAX_ENTRIES:,} files of each user",
        f"at most {names.MAX_LABELS} labels, with at most {names.MAX_LABEL_BYTES} bytes of name and value",
        f"(`agent_unreachable` after {Coverage().silent_seconds:.0f} s)",
    ],
    "docs/deploy/discovery.md": [
        f"open files for {config._MAX_DISCOVERED:,} agents",
        f"files again every {file_sd.FileTargets.interval_seconds:.0f} s, asks a Prometheus every "
        f"{prometheus.PrometheusTargets.interval_seconds:.0f} s and DNS every {dns.DnsTargets.interval_seconds:.0f} s",
        f"the hub keeps them for {'five' if HOLD_SECONDS == 300 else HOLD_SECONDS} minutes.",
        f"for {'an hour' if agent_link.FORGET_SECONDS == 3600 else agent_link.FORGET_SECONDS} at most",
        f"or `http`, else {AGENT_PORT}.",
    ],
    "docs/deploy/kubernetes.md": [
        f"Each rank has a box of {BOX}",
        f"port {AGENT_PORT} of every node",
        f"folder of a pod {GRACE_SECONDS / 60:.0f} minutes after the pod is gone",
    ],
    "docs/deploy/systemd.md": [f"{RANKS * STARTS} boxes of {BOX}", f"stay for {GRACE_SECONDS / 60:.0f} minutes"],
    "docs/deploy/prometheus.md": [f"hub.example.org:{HUB_PORT}"],
    "docs/http.md": [
        f"`127.0.0.1:{AGENT_PORT}`, the hub on `127.0.0.1:{HUB_PORT}`",
        f"A server has {CONNECTIONS} connections at most",
        f"within {connections.IDLE_SECONDS:.0f} seconds, and its answer must be taken within "
        f"{connections.SEND_SECONDS:.0f} seconds",
    ],
    "docs/inference.md": [
        f"the box keeps the last {layout.RING_CAPACITY:,} boundaries",
        f"after {device_time._MAX_QUEUED} more steps",
        f"in the { {4: 'fourth'}[flops.FIRST_STEP] } step",
        f"sequence numbers of { {8: 'eight'}[layout.MAX_GROUPS] } process groups",
        f"torch older than {'.'.join(map(str, OLDEST_TORCH))}",
    ],
    "docs/scale.md": [f"A hub asks at most {config._MAX_DISCOVERED:,} agents that it has found by discovery"],
    "docs/threat-model.md": [
        f"a world of up to {limits.MAX_WORLD_SIZE:,} ranks",
        f"the first {limits.MAX_NAMED_MISSING} named",
        f"{steps.MAX_VALUES:,} values ({steps.MAX_VALUES * 8 >> 20} MiB) in the hub, from "
        f"{steps.MAX_ROWS_OF_RANK:,} steps of a rank and {steps.MAX_COLUMNS} columns at most",
        f"answer with up to {MAX_ANSWER_BYTES >> 20} MiB "
        f"(suspects and evidence: {endpoints.EVIDENCE.max_bytes >> 20} MiB)",
        f"beyond {CONNECTIONS} connections",
        f"a request must arrive in {connections.IDLE_SECONDS:.0f} s; "
        f"bodies are dropped after {connections.BODY_SECONDS:.0f} s",
        f"leave an answer untaken for {connections.SEND_SECONDS:.0f} s",
        f"one line of each kind in {INTERVAL_SECONDS:.0f} s",
        f"never finish the handshake, for {handshake.HANDSHAKE_SECONDS:.0f} s",
        f"more than {unread_boxes.MAX_UNREAD} of them on a node",
        f"{rank_limit.MAX_RANKS} ranks, {box_listing.MAX_ENTRIES:,} files, {names.MAX_LABELS} labels a job",
        f"of an agent shows {JOBS_OF_AGENT} of them, that of a hub {JOBS_OF_HUB}",
        f"until {GRACE_SECONDS / 60:.0f} minutes after its end",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("page", "sentence"), [(page, sentence) for page, sentences in NUMBERS.items() for sentence in sentences]
)
def test_numbers_of_a_page_are_those_of_the_code(page, sentence):
    assert sentence in " ".join(text_of(page).split())


WINDOWS = ("ZmonHubDown", "ZmonSamplesMissing")  # alerts on what is missing in a window
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+)(?:: [^|]*)? \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)


def times_of(rules: dict[str, Any], name: str) -> str:
    """Return the window of an alert, if it has one, and for how long it is pending, as the page writes them."""
    (rule,) = [rule for group in rules["groups"] for rule in group["rules"] if rule.get("alert") == name]
    windows = dict.fromkeys(re.findall(r"\[(\w+)\]", rule["expr"]) if name in WINDOWS else ())
    return ", ".join(f"{in_seconds(span)} s" for span in (*windows, rule["for"]))


def in_seconds(span: str) -> int:
    """Return the seconds of a duration such as 1m30s."""
    return sum(int(number) * {"s": 1, "m": 60}[unit] for number, unit in re.findall(r"(\d+)([ms])", span))


@pytest.mark.parametrize(("column", "folder"), [(0, "dashboards/rules"), (1, "helm/zmon/files/rules")])
def test_table_of_intervals_has_the_times_of_the_rules(column, folder):
    rows = ROW.findall(text_of("docs/deploy/prometheus.md").partition("The times that follow from the intervals")[2])
    cells = {name: row[1 + column] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    rules = yaml.safe_load((REPOSITORY / folder / "zmon.yaml").read_text())
    assert len(cells) == 6
    assert cells == {name: times_of(rules, name) for name in cells}


def test_commands_that_take_credentials_are_those_of_the_page():
    sentence = re.search(r"^The hub, (.*?) take `--http-config", text_of("docs/deploy/security.md"), re.MULTILINE)[1]
    commands = {word.removeprefix("zmon ") for word in re.findall(r"`([\w ]+)`", sentence)} | {"hub"}
    assert commands == {name for name, options in COMMANDS.items() if "--http-config" in options}


@pytest.mark.parametrize("page", pages())
def test_pages_do_not_use_the_older_name_of_an_option(page):
    assert "--public" not in OPTION.findall(text_of(page))  # --insecure-public


def test_security_page_names_what_a_daemon_asks_for_beyond_loopback():
    with pytest.raises(UsageError) as error:
        check_bind("0.0.0.0", live=None, insecure=False)
    wanted = {"TLS", "users", "certificates", *OPTION.findall(str(error.value))}
    assert wanted >= {"--web.config.file", "--insecure-public"}
    text = text_of("SECURITY.md")
    assert {word for word in wanted if word not in text} == set()
    assert "no TLS" not in text
