"""A reader of deploy/container/Containerfile: its stages, and the instructions that an image of a stage gets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """An instruction such as COPY, with its flags (`--from=build`) and its words."""

    name: str
    flags: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """The words of an instruction that is written as JSON, such as ENTRYPOINT ["zmon"]."""
        return list(json.loads(" ".join(self.words)))


@dataclass(frozen=True)
class Stage:
    """A stage of the build; `parent` is another stage, or an image."""

    name: str
    parent: str
    instructions: tuple[Instruction, ...]


def instructions(text: str) -> Iterator[Instruction]:
    """Yield all instructions of a Containerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, *words = line.split()
        flags = [word for word in words if word.startswith("--")] if name in ("ADD", "COPY", "FROM") else []
        yield Instruction(name, tuple(flags), tuple(words[len(flags) :]))


def stages(path: Path) -> dict[str, Stage]:
    """Return the stages by name; each has one (FROM … AS name)."""
    result: dict[str, Stage] = {}
    for instruction in instructions(path.read_text()):
        if instruction.name == "FROM":
            parent, _, name = instruction.words
            result[name] = Stage(name, parent, ())
        elif result:
            stage = list(result.values())[-1]
            result[stage.name] = Stage(stage.name, stage.parent, (*stage.instructions, instruction))
    return result


def inherited(all_stages: dict[str, Stage], name: str) -> list[Instruction]:
    """Return the instructions of a stage and of the stages that it begins with, the earliest first."""
    stage = all_stages[name]
    before = inherited(all_stages, stage.parent) if stage.parent in all_stages else []
    return [*before, *stage.instructions]
