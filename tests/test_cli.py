"""The command line: misuse is one line and exit code 2, whatever goes wrong is one line, and codes mean something."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from aiohttp.test_utils import unused_port

import zmon
from tests.build import finding
from tests.metrics.scene import JOB_VIEW
from zmon.cli import cli, main

PROJECT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden/cli.txt"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run `zmon …` in this process: exit code, stdout, stderr."""
    for name in ("ZMON_HUB_URL", "ZMON_CONFIG", "ZMON_AGENTS", "ZMON_WEBHOOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZMON_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ZMON_BOX_DIR", str(tmp_path / "boxes"))
    monkeypatch.setenv("COLUMNS", "200")

    def zmon_(*arguments):
        monkeypatch.setattr("sys.argv", ["zmon", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as leave:
            code = leave.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return zmon_


def assert_one_line(err, *parts):
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    for part in parts:
        assert part in lines[0]


# -- misuse ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["agent", "--nonsense"], "--nonsense"),
        (["agent", "--port", "many"], "many"),
        (["agent", "--bind", "0.0.0.0"], "0.0.0.0"),
        (["hub", "--bind", "10.1.2.3"], "10.1.2.3"),
        (["hub", "--agents", "node-1"], "http://"),
        (["hub", "--agents", " , "], "no agent"),
        (["demo", "--data", "no/such.tsv"], "no/such.tsv"),
        (["demo", "--ranks", "0"], "0"),
        (["demo", "--seconds", "-3"], "-3"),
        (["--config", "no/such.yaml", "status"], "no/such.yaml"),
        (["up", "--ready-file", "/no/such/dir/ready.json"], "no such directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_is_one_line_and_exit_code_2(run, arguments, part):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, part)


def test_demo_on_a_directory_is_misuse(run, tmp_path):
    code, _, err = run("demo", "--data", tmp_path)
    assert code == 2
    assert_one_line(err, str(tmp_path))


def test_second_stack_on_the_same_data_is_misuse(run, tmp_path):
    (tmp_path / "data").mkdir()
    with (tmp_path / "data/lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, _, err = run("up")
    assert code == 2
    assert_one_line(err, "is in use", "--data-dir")


@pytest.mark.parametrize("arguments", [["up"], ["demo"], ["dashboard"]], ids=lambda value: value[0])
def test_no_dashboard_without_streamlit(run, monkeypatch, arguments):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "streamlit" else name)
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert_one_line(err, "pip install 'zmon[dashboard]'")


def spawn(tmp_path, *arguments):
    """`zmon …` as a process of its own; one that hangs is ended after five seconds."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("ZMON_")}
    env |= {"ZMON_DATA_DIR": str(tmp_path / "data"), "ZMON_BOX_DIR": str(tmp_path / "boxes")}
    process = subprocess.Popen(
        [sys.executable, "-m", "zmon", *map(str, arguments)],
        cwd=PROJECT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    guard = threading.Timer(5.0, process.kill)
    guard.start()
    return process, guard


def outcome(process, guard):
    """Exit code, and stderr without the log that a daemon keeps there."""
    _, err = process.communicate()
    guard.cancel()
    return process.returncode, "\n".join(line for line in err.splitlines() if not line[:4].isdigit())


@pytest.mark.parametrize("name", ["agent", "hub"])
def test_port_that_is_taken_is_one_line_and_exit_code_1(tmp_path, name):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, err = outcome(*spawn(tmp_path, name, "--port", port))
    assert code == 1, "it was killed after five seconds" if code < 0 else err
    assert_one_line(err, f"127.0.0.1:{port}", "the port is taken", "--port")


def test_port_that_is_none_is_misuse(tmp_path):
    code, err = outcome(*spawn(tmp_path, "agent", "--port", 99999))
    assert code == 2, "it was killed after five seconds" if code < 0 else err
    assert_one_line(err, "99999")


@pytest.mark.parametrize("name", ["agent", "hub"])
def test_daemon_says_where_it_listens_and_ends_at_sigterm(tmp_path, name):
    port = unused_port()
    process, guard = spawn(tmp_path, name, "--port", port)
    assert process.stdout.readline() == f"zmon {name} listens on http://127.0.0.1:{port}\n"
    process.terminate()
    assert outcome(process, guard) == (0, "")


# -- status ------------------------------------------------------------------------------------------------


@pytest.fixture
def hub():
    """A hub that answers with what is put in `answers`."""
    answers = {"/api/v1/jobs": {"schema": 1, "blind": False, "jobs": [JOB_VIEW]}}
    answers["/api/v1/findings"] = {"schema": 1, "findings": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.get(self.path.partition("?")[0])
            body = msgspec.json.encode(answer)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    server.answers = answers
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    server.server_close()


def test_status_without_a_hub_is_blind(run):
    code, out, err = run("status", "--hub", f"http://127.0.0.1:{unused_port()}")
    assert (code, out) == (3, "")
    assert_one_line(err, "cannot reach", "--hub")


def test_status_of_a_url_that_is_none_is_blind(run):
    code, _, err = run("status", "--hub", "nowhere")
    assert code == 3
    assert_one_line(err, "nowhere")


def test_status_of_a_healthy_job_is_0(run, hub):
    code, out, _ = run("status", "--hub", hub.url)
    assert code == 0
    assert "no findings" in out


def test_status_with_a_finding_is_1(run, hub):
    hub.answers["/api/v1/findings"]["findings"] = [finding()]
    code, out, _ = run("status", "--hub", hub.url)
    assert code == 1
    assert "CRITICAL rank_frozen" in out


def test_status_of_a_blind_hub_is_3_whatever_it_last_saw(run, hub):
    hub.answers["/api/v1/jobs"]["blind"] = True
    code, out, _ = run("status", "--hub", hub.url)
    assert code == 3
    assert out.startswith("BLIND")


def test_status_as_json_is_one_document_of_the_schema(run, hub):
    hub.answers["/api/v1/findings"]["findings"] = [finding()]
    code, out, _ = run("status", "--json", "--hub", hub.url)
    answer = json.loads(out)
    assert code == 1
    assert answer["schema"] == 1
    assert answer["blind"] is False
    assert [job["job_id"] for job in answer["jobs"]] == ["job"]
    assert [found["id"] for found in answer["findings"]] == ["f1"]


PLAN = {
    "schema": 1, "job_id": "job", "totals": {"samples_per_second": 1e5},
    "ranks": [
        {"rank": rank, "host": "node-a", "tables": [f"t{rank}"], "num_tables": 3,
         "planned": {"lookups": 1000, "sent_bytes": 5e6, "seconds": 0.010},
         "measured": {"lookups": 1000 + 2500 * (rank == 30), "sent_bytes": 4e6, "seconds": 0.012, "memory_bytes": 1e9}}
        for rank in range(32)
    ],
}  # fmt: skip


def test_status_of_one_job_shows_plan_and_reality_the_furthest_apart_first(run, hub):
    hub.answers["/api/v1/jobs/job/plan"] = PLAN
    code, out, _ = run("status", "--job", "job", "--hub", hub.url)
    assert code == 0
    planned = [line for line in out.splitlines() if " planned " in line]
    assert len(planned) == 16
    said = "30 planned 1,000 5 MB unknown 10 ms unknown 3.50 × t30 and 2 more"
    assert planned[0].split() == said.split()
    measured = out.splitlines()[out.splitlines().index(planned[0]) + 1]
    assert measured.split() == ["node-a", "measured", "3,500", "4", "MB", "unknown", "12", "ms", "1", "GB"]
    assert "and 16 more ranks" in out
    assert "planned in all: samples_per_second 100,000" in out


def test_status_of_one_job_as_json_has_its_plan(run, hub):
    hub.answers["/api/v1/jobs/job/plan"] = PLAN
    answer = json.loads(run("status", "--job", "job", "--json", "--hub", hub.url)[1])
    assert answer["plan"]["ranks"][30]["measured"]["lookups"] == 3500
    assert [job["job_id"] for job in answer["jobs"]] == ["job"]


def test_status_of_one_job_says_where_no_plan_was_told(run, hub):
    hub.answers["/api/v1/jobs/job/plan"] = {**PLAN, "totals": None}
    code, out, _ = run("status", "--job", "job", "--hub", hub.url)
    assert code == 0
    assert "its trainer told no plan" in out


def test_status_of_a_job_that_is_not_there_is_misuse(run, hub):
    code, out, err = run("status", "--job", "nothing", "--hub", hub.url)
    assert (code, out) == (2, "")
    assert_one_line(err, "nothing", "zmon status lists")


def test_status_finds_the_stack_that_runs_on_this_machine(run, hub, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/stack.json").write_text(json.dumps({"hub": hub.url}))
    assert run("status")[0] == 0


def test_flag_wins_over_variable_and_variable_over_config_file(run, hub, tmp_path, monkeypatch):
    nobody = f"http://127.0.0.1:{unused_port()}"
    config = tmp_path / "zmon.yaml"
    config.write_text(json.dumps({"status": {"hub": hub.url}}))
    assert run("--config", config, "status")[0] == 0
    monkeypatch.setenv("ZMON_HUB_URL", nobody)
    assert run("--config", config, "status")[0] == 3
    assert run("--config", config, "status", "--hub", hub.url)[0] == 0


# -- the list ----------------------------------------------------------------------------------------------


def test_commands_and_options_are_the_golden_list():
    """To add one: put it into tests/golden/cli.txt; to take one away is to break people's scripts."""
    lines = [
        " ".join([name, *sorted(option for parameter in command.params for option in parameter.opts)])
        for name, command in sorted(cli.commands.items())
    ]
    assert lines == GOLDEN.read_text().splitlines()


def test_every_command_says_what_it_does():
    for name, command in cli.commands.items():
        assert command.help, name


def test_zmon_is_a_module_too():
    done = subprocess.run(
        [sys.executable, "-m", "zmon", "--version"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert zmon.__version__ in done.stdout
