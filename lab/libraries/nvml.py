"""Give a host GPUs: a stub of libnvidia-ml.so.1, compiled from nvml.c, answers from a script."""

from __future__ import annotations

from pathlib import Path

from lab.libraries import shared_library


def library(folder: Path, *flags: str) -> Path:
    """Compile the stub as libnvidia-ml.so.1 into this directory. Raises PartFailed without a C compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    return shared_library(Path(__file__).with_name("nvml.c"), folder / "libnvidia-ml.so.1", *flags)


class Script:
    """The answers of the stub. A change takes effect at once, also in running processes."""

    def __init__(self, path: Path, library: Path) -> None:
        self.path = path
        self.library = library
        self._answers: dict[tuple[str, str], str] = {}
        self.set_answers()

    def set_answers(self, *lines: tuple[str, str, object]) -> None:
        """Set answers, as lines `who what answer`; all other answers stay."""
        self._answers |= {(who, what): str(answer) for who, what, answer in lines}
        self._write()

    def reset_answers(self, *questions: tuple[str, str]) -> None:
        """Reset answers to their defaults."""
        for question in questions:
            self._answers.pop(question, None)
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which a process's pynvml loads the stub."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "ZMON_NVML_SCRIPT": str(self.path)}

    def _write(self) -> None:
        text = "".join(f"{who} {what} {answer}\n" for (who, what), answer in self._answers.items())
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)  # atomic; the stub notices the change by the new inode
