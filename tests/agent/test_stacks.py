"""Tests of Python stacks read with py-spy. A stack that cannot be read is replaced by a reason of a single line."""

import asyncio

import pytest

from tests.boxes import eventually
from zmon.agent import stacks
from zmon.process import process_id, process_stat


@pytest.fixture
def process(start_python):
    """Return a process that holds its interpreter lock for the whole test."""
    return start_python(
        "import ctypes\ndef guilty_line(): ctypes.PyDLL(None).sleep(60)\nprint(1, flush=True)\nguilty_line()"
    )


def read(pid, command=stacks.PY_SPY):
    """Return the stack of a process as text, and the reason if there is none."""
    stack, reason = asyncio.run(stacks.read_stacks(pid and process_id(pid), command))
    return stack and stack.decode(), reason


def test_stack_is_read_while_the_process_holds_its_interpreter_lock_and_is_not_stopped_for_it(process):
    assert eventually(lambda: "guilty_line" in (read(process.pid)[0] or ""))
    assert read(process.pid)[1] is None
    assert process_stat(process.pid).state not in "Tt"


def test_stack_does_not_contain_the_command_line(process, tmp_path):
    """A command line may contain tokens, and many people read findings. It may have several lines."""
    stack, _ = read(process.pid)
    assert stack.startswith("Python v3")
    assert "ctypes" not in stack
    script = tmp_path / "py-spy"
    script.write_text(
        "#!/bin/sh\nprintf 'Process 7: python -c x\\nPython v3 --token=SECRET\\nPython v3.11.7 (/p)\\n\\nThread 7'\n"
    )
    script.chmod(0o755)
    assert read(1, str(script)) == ("Python v3.11.7 (/p)\n\nThread 7", None)
    script.write_text('#!/bin/sh\necho \'{"command": "python --token=SECRET"}\'\n')
    stack, reason = read(1, str(script))
    assert stack is None
    assert reason.startswith("py-spy's answer has an unknown format")


@pytest.mark.parametrize(
    ("pid", "command", "expected"),
    [
        (1, None, "py-spy is not installed"),
        (None, stacks.PY_SPY, "in another PID namespace"),
        (1, "/nowhere/py-spy", "cannot run /nowhere/py-spy: No such file"),
        (1, "/bin/true", "py-spy cannot read it"),
    ],
)
def test_unreadable_stack_has_a_reason_of_a_single_line(pid, command, expected):
    stack, reason = read(pid, command)
    assert stack is None
    assert expected in reason
    assert "\n" not in reason


def test_hanging_py_spy_is_reported_after_its_timeout(tmp_path, monkeypatch):
    hangs = tmp_path / "py-spy"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(stacks, "PY_SPY_SECONDS", 0.2)
    assert "did not end within 0.2 s" in read(1, str(hangs))[1]
