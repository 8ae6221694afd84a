"""The refusal of a request: an error status and one line with the reason."""


class Refusal(Exception):
    """Raised by a handler that refuses a request."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status
