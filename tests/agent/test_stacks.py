"""Where a process is in its Python code, read from outside, or one line why that cannot be read."""

import asyncio
import subprocess
import sys

import pytest

from tests.boxes import eventually
from zmon.agent import stacks


@pytest.fixture
def process():
    """One that holds its interpreter lock for as long as the test lasts."""
    code = "import ctypes\ndef guilty_line(): ctypes.PyDLL(None).sleep(60)\nprint(1, flush=True)\nguilty_line()"
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.readline()
    yield started
    started.kill()
    started.wait(timeout=5)
    started.stdout.close()


def read(pid, command=stacks.PY_SPY):
    told, why_not = asyncio.run(stacks.read(pid, command))
    return told and told.decode(), why_not


def test_line_of_a_process_that_holds_its_interpreter_lock_is_read(process):
    assert eventually(lambda: "guilty_line" in (read(process.pid)[0] or ""))
    assert read(process.pid)[1] is None


def test_command_line_stays_where_it_is(process, tmp_path):
    """Tokens are passed on it, and findings are read by many. It may have any number of lines."""
    told, _ = read(process.pid)
    assert told.startswith("Python v3")
    assert "ctypes" not in told
    says = tmp_path / "py-spy"
    says.write_text(
        "#!/bin/sh\nprintf 'Process 7: python -c x\\nPython v3 --token=SECRET\\nPython v3.11.7 (/p)\\n\\nThread 7'\n"
    )
    says.chmod(0o755)
    assert read(7, str(says)) == ("Python v3.11.7 (/p)\n\nThread 7", None)
    says.write_text('#!/bin/sh\necho \'{"command": "python --token=SECRET"}\'\n')
    told, why_not = read(7, str(says))
    assert told is None
    assert why_not.startswith("py-spy's answer is not understood")


def test_process_goes_on_while_it_is_read(process):
    read(process.pid)
    with open(f"/proc/{process.pid}/stat") as stat:  # noqa: PTH123
        assert stat.read().split()[2] not in "Tt"


@pytest.mark.parametrize(
    ("pid", "command", "said"),
    [
        (1, None, "py-spy is not installed"),
        (0, stacks.PY_SPY, "not seen from here"),
        (2**22 + 1, stacks.PY_SPY, "py-spy cannot read it"),
        (1, "/nowhere/py-spy", "cannot run /nowhere/py-spy: No such file"),
        (1, "/bin/true", "py-spy cannot read it"),
    ],
)
def test_stack_that_cannot_be_read_is_one_line_why(pid, command, said):
    told, why_not = read(pid, command)
    assert told is None
    assert said in why_not
    assert "\n" not in why_not


def test_reader_that_never_ends_is_ended(tmp_path, monkeypatch):
    hangs = tmp_path / "py-spy"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(stacks, "TIMEOUT_SECONDS", 0.2)
    assert "did not end within 0.2 s" in read(1, str(hangs))[1]
