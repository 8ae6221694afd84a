"""A reader of deploy/container/Containerfile: its stages, and the instructions that an image of a stage gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """An instruction such as COPY, with its flags (`--from=build`) and its words."""

    name: str
    flags: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """The strings of an instruction in the exec form, such as ENTRYPOINT ["zmon"]."""
        return list(json.loads(" ".join(self.words)))


@dataclass
class Stage:
    """A stage of the build; `parent` is another stage, or an image."""

    parent: str
    instructions: list[Instruction] = field(default_factory=list)


def instructions(text: str) -> Iterator[Instruction]:
    """Yield all instructions of a Containerfile."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        name, *words = line.split()
        # In RUN and CMD, words with -- belong to the command.
        flags = [word for word in words if word.startswith("--")] if name in ("ADD", "COPY", "FROM") else []
        yield Instruction(name, tuple(flags), tuple(words[len(flags) :]))


def stages(path: Path) -> dict[str, Stage]:
    """Return the stages by name. Raises ValueError if a stage has no name (FROM … AS name)."""
    result: dict[str, Stage] = {}
    stage = None  # there may be ARG before the first stage
    for instruction in instructions(path.read_text()):
        if instruction.name == "FROM":
            parent, _, name = instruction.words
            stage = result[name] = Stage(parent)
        elif stage is not None:
            stage.instructions.append(instruction)
    return result


def inherited(all_stages: dict[str, Stage], name: str) -> list[Instruction]:
    """Return the instructions of a stage and of its parent stages, the earliest first."""
    stage = all_stages[name]
    before = inherited(all_stages, stage.parent) if stage.parent in all_stages else []
    return [*before, *stage.instructions]
