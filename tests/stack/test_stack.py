"""Tests of the stack before its parts start: its parts, its generated files, and the lock on its data directory."""

import signal
import subprocess

SCRIPT = """
    import sys, time
    from pathlib import Path
    from zmon import stack as stack_module
    from zmon.errors import ZmonError
    from zmon.stack import Stack, StackConfig
    folder = Path(__file__).parent
    ports = dict(agent_port=0, hub_port=0, prometheus_port=0, alertmanager_port=0, dashboard_port=0)
    if (folder / "without-streamlit").exists():
        stack_module.is_installed = lambda module: module != "streamlit"
    try:
        file = folder / "zmon.yaml"
        config = StackConfig(
            folder / "data", folder / "boxes", "node-a", **ports, config_file=file if file.exists() else None
        )
        stack = Stack(config, lambda line: print("line", line))
    except ZmonError as error:
        print("refused", error)
        sys.exit(2)
    print("with-config", *(part.name for part in stack.parts if str(file) in part.command), flush=True)
    print("parts", *(part.name for part in stack.parts), flush=True)
    time.sleep(60)
"""


def test_checkers_accept_generated_configuration_of_parts(start_rank, tmp_path):
    stack = start_rank(SCRIPT)
    assert stack.says("parts") == "prometheus alertmanager agent hub dashboard"
    for command in (
        ["promtool", "check", "config", "data/prometheus.yml"],
        ["promtool", "check", "web-config", "data/alertmanager-web.yml"],
        ["amtool", "check-config", "data/alertmanager.yml"],
    ):
        subprocess.run(command, cwd=tmp_path, timeout=30, check=True)  # pytest shows what it prints


def test_stack_without_streamlit_has_all_other_parts_and_says_what_to_install(start_rank, tmp_path):
    (tmp_path / "without-streamlit").touch()
    stack = start_rank(SCRIPT)
    assert stack.says("parts") == "prometheus alertmanager agent hub"
    assert stack.says("line the dashboard does not run:").startswith("streamlit is not installed. Run ")
    assert "pip install 'zmon-training[dashboard]', then start again" in stack.output


def test_daemons_read_the_configuration_file_of_the_stack(start_rank, tmp_path):
    (tmp_path / "zmon.yaml").touch()
    assert start_rank(SCRIPT).says("with-config") == "agent hub dashboard"


def test_second_stack_on_same_data_is_refused_while_first_runs(start_rank):
    first = start_rank(SCRIPT)
    first.says("parts")
    second = start_rank(SCRIPT)
    assert second.wait() == 2
    assert "another zmon demo or up is running" in second.says("refused")
    first.signal(signal.SIGKILL)
    first.wait()
    start_rank(SCRIPT).says("parts")


def test_data_directory_that_cannot_be_written_is_refused(start_rank, tmp_path):
    (tmp_path / "data").write_text("a file")
    stack = start_rank(SCRIPT)
    assert stack.wait() == 2
    assert "--data-dir" in stack.says("refused")
