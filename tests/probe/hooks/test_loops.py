"""Tests of the loops around a training step: which lines of a script they have, and when they are unknown."""

from __future__ import annotations

import contextlib
import threading
from types import FunctionType

import pytest

from zmon import probe
from zmon.probe.hooks import loops
from zmon.probe.hooks.loops import LoopNotes
from zmon.schema.training_loops import from_text

PATH = "/home/ann/train.py"
# Each script calls `step`; the lines that end with a number sign are in a loop around the call.
SCRIPTS = {
    "for": """
def main():
    other()
    for _ in range(2):  #
        step()  #
        other()  #
    other()
""",
    "epochs": """
def main():
    for _ in range(2):  #
        for _ in range(2):  #
            step()  #
        other()  #
    for _ in range(2):
        other()
""",
    "while": """
def main():
    left = 2
    while left:  #
        left -= 1  #
        step(  #
            number := 1,  #
        )
    other()
""",
    "no condition": """
def main():
    left = 2
    while True:  #
        step()  #
        left -= 1  #
        if not left:  #
            other()
            break
    other()
""",
    "condition that trains": """
def train():
    for _ in range(2):  #
        step()  #
    other()
    return False
def main():
    while train():  #
        other()  #
    other()
""",
    "two places of steps": """
def main():
    for _ in range(2):  #
        step()  #
        other()  #
        step()  #
""",
    "handler that tries again": """
def main():
    for number in range(3):  #
        try:  #
            if number:  #
                fail()  #
        except ValueError:  #
            step()  #
            continue  #
        other()  #
    other()
""",
    "with": """
def main():
    with context():
        for _ in range(2):  #
            with context():  #
                step()  #
                other()  #
        other()
""",
    "function in a loop": """
def train():
    other()
    step()
    other()
def main():
    for _ in range(2):  #
        train()  #
    other()
""",
    "generator": """
def train():
    for _ in range(2):  #
        step()  #
        yield  #
    other()
def main():
    for _ in train():  #
        other()  #
    other()
""",
    "coroutine": """
async def train():
    for _ in range(2):  #
        step()  #
    other()
def main():
    with contextlib.suppress(StopIteration):
        train().send(None)
""",
    "loop of torch": """
def wrapper():
    for _ in range(2):
        step()
wrapper = FunctionType(wrapper.__code__, {**globals(), "__name__": "torch.optim.optimizer"})
def main():
    for _ in range(2):  #
        wrapper()  #
""",
    "no loop": """
def main():
    step()
    for _ in range(2):
        other()
""",
}


class Script:
    """A script that is run with `LoopNotes` at the end of each step."""

    def __init__(self, monkeypatch, source, path=PATH):
        self.notes = LoopNotes(None)
        self.texts = []  # each text that was noted for the agent
        monkeypatch.setattr(probe, "identify", lambda loops: self.texts.append(loops))
        names = {"step": self.step, "other": lambda: None, "context": contextlib.nullcontext, "fail": self.fail}
        self.globals = {**names, "contextlib": contextlib, "FunctionType": FunctionType, "__name__": "__main__"}
        exec(compile(source, path, "exec"), self.globals)

    def step(self, _=None):
        self.notes()

    def fail(self):
        raise ValueError

    def run(self):
        """Run `main`, and return the loops of the script that were noted last."""
        self.globals["main"]()
        return [loop for loop in from_text(self.texts[-1]) if loop.path == PATH]


@pytest.mark.parametrize("source", SCRIPTS.values(), ids=SCRIPTS)
def test_lines_of_the_loops_are_those_of_the_source(monkeypatch, source):
    loops = Script(monkeypatch, source).run()
    lines = {line for loop in loops for line in range(loop.first_line, loop.last_line + 1)}
    assert lines == {number for number, line in enumerate(source.splitlines(), 1) if line.endswith("#")}


def test_loops_are_written_only_if_they_change(monkeypatch):
    script = Script(monkeypatch, SCRIPTS["two places of steps"])
    script.run()
    assert len(script.texts) == 1


def test_functions_are_read_once(monkeypatch):
    codes = []

    def find_no_loops(code):
        codes.append(code)
        return []

    monkeypatch.setattr(loops, "find_loops", find_no_loops)
    script = Script(monkeypatch, SCRIPTS["two places of steps"])
    script.globals["main"]()
    assert script.globals["main"].__code__ in codes
    assert len(codes) == len(set(codes))


def test_loops_of_a_step_in_another_thread_are_unknown(monkeypatch):
    script = Script(monkeypatch, SCRIPTS["for"])
    assert script.run()
    thread = threading.Thread(target=script.globals["main"])
    thread.start()
    thread.join()
    assert script.texts[-1] == ""
    assert script.run()


def test_function_of_many_instructions_is_not_read(monkeypatch):
    calls = "    other(); other(); other()\n" * 1500  # more bytecode than zmon reads
    script = Script(monkeypatch, f"def main():\n{calls}    for _ in range(2):\n        step()\n")
    script.globals["main"]()
    assert script.texts == []


def test_path_that_a_stack_may_show_otherwise_is_not_written(monkeypatch):
    script = Script(monkeypatch, SCRIPTS["for"], "/home/zoë/train.py")
    script.globals["main"]()
    assert script.texts == []


def test_memory_of_the_device_is_still_read(monkeypatch):
    monkeypatch.setattr(probe, "identify", lambda loops: None)
    assert LoopNotes(lambda: (1, 2, 3))() == (1, 2, 3)
