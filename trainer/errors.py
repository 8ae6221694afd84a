"""What can go wrong, said in one line: what failed, the likely cause, the next step.

    TrainerError
    ├── ConfigError      a key or a value of the configuration cannot be
    ├── DataError        the training data cannot be used
    ├── WorldError       the ranks do not fit the job, or do not find each other
    ├── CheckpointError  a checkpoint cannot be kept or brought back; the same on all ranks
    └── TrainingError    what was trained is lost: its loss is no number

They are caught once, in __main__, and end the process with exit code 2. What is nobody's misuse, a collective whose
peer died for example, is not caught at all.
"""


class TrainerError(Exception):
    """One line for a person: `what failed: likely cause. next step`."""

    def __init__(self, what: str, cause: str, next_step: str) -> None:
        super().__init__(f"{what}: {cause}. {next_step}")


class ConfigError(TrainerError):
    """A key or a value of the configuration cannot be."""


class DataError(TrainerError):
    """The training data cannot be used."""


class WorldError(TrainerError):
    """The ranks do not fit the job, or do not find each other."""


class TrainingError(TrainerError):
    """What was trained is lost."""


class CheckpointError(TrainerError):
    """A checkpoint cannot be kept or brought back; all ranks raise the same."""


def require(holds: bool, key: str, value: object, must: str) -> None:
    """Refuse a value by its dotted key, the one that people write: `train.steps`."""
    if not holds:
        raise ConfigError(f"{key} is {value}", f"it must be {must}", f"Change it with --set {key}=…")
