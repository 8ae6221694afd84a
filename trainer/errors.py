"""The errors of the trainer; each is one line: what failed, the likely cause, the next step.

Each command catches them once, in its `main`, and exits with code 2; the trainer does so for a lack of memory too.
Errors that the user did not cause, such as a collective whose peer died, are not caught.
"""


class TrainerError(Exception):
    """One line for the user: `what failed: likely cause. next step`."""

    def __init__(self, failure: str, cause: str, next_step: str) -> None:
        super().__init__(f"{failure}: {cause}. {next_step}")
        self.parts = failure, cause, next_step


class ConfigError(TrainerError):
    """A key or a value of the configuration is invalid."""


class DataError(TrainerError):
    """The training data cannot be used."""


class WorldError(TrainerError):
    """The ranks do not fit the job, or cannot connect to each other."""


class TrainingError(TrainerError):
    """The training diverged: its loss is NaN or infinite."""


class CheckpointError(TrainerError):
    """A checkpoint cannot be saved or loaded; all ranks raise the same error."""


def require(holds: bool, key: str, value: object, must: str) -> None:
    """Raise ConfigError with the dotted key, such as `train.steps`, unless `holds` is true."""
    if not holds:
        raise ConfigError(f"{key} is {value}", f"it must be {must}", f"Change it with --set {key}=…")
