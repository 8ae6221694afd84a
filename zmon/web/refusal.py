"""The answer of a handler that has no other."""


class Refusal(Exception):
    """Raised by a handler that has no answer; carries the status and one line with the reason."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status
