"""A job whose time passes as told, and whose account is looked at whenever the test says so."""

from dataclasses import dataclass, field

import msgspec

from tests.build import NOW, dead, rank_state, snapshot, step_record
from zmon.job.history import align
from zmon.job.time_account import Account

STEP = 0.020


@dataclass
class Life:
    """A job of four ranks whose time passes as told, and whose account is looked at whenever the test says so."""

    account: Account = field(default_factory=lambda: Account("job"))
    time: float = NOW
    attempt: int = 0
    activity: str = "init"
    between: dict = field(default_factory=dict)
    in_steps: float = 0.0
    steps: int = 0
    open: float = 0.0
    checkpoint: float | None = None
    stepped: float | None = None  # when the last step ended
    told: list = field(default_factory=list)
    gone: float | None = None
    waited: float = 0.0  # in all: what the account must come to

    def wait(self, seconds):
        """Time passes in what it does."""
        self.time += seconds
        self.open += seconds
        self.waited += seconds
        if self.gone is not None:
            self.gone += seconds

    def turn(self, activity):
        """It turns to something else."""
        if self.activity == "checkpoint":
            self.checkpoint = self.time
        self.between = {**self.between, self.activity: self.between.get(self.activity, 0.0) + self.open}
        self.activity, self.open = activity, 0.0

    def train(self, number, seconds=STEP, phases=None, ops=None):
        """So many steps, beside the time that has passed in the first of them already."""
        if self.activity != "train":
            self.turn("train")
        for _ in range(number):
            self.wait(seconds)
            self.steps += 1
            waited = self.open - seconds  # before this step was let go on
            phases_ = phases or {"forward": seconds / 2}
            ops_ = ops or {"all_to_all": seconds - sum(phases_.values())}
            ops_ = {op: s + (waited if n == 0 else 0.0) for n, (op, s) in enumerate(ops_.items())}
            record = step_record(self.steps, phases_, ops_)
            self.told.append(align(self.steps, [record] * 4))
            self.in_steps += self.open
            self.stepped = self.time
            self.open = 0.0

    def die(self):
        """All ranks at once."""
        self.gone = 0.0

    def begin(self, after):
        """Another start, so long after the end of the last."""
        self.time += after - (self.gone or 0.0)
        self.waited += after - (self.gone or 0.0)
        self.attempt, self.activity, self.between, self.in_steps = self.attempt + 1, "init", {}, 0.0
        self.open, self.gone, self.checkpoint, self.told = 0.0, None, None, []

    def state(self):
        changes = {
            "attempt": self.attempt, "activity": self.activity, "between_seconds": dict(self.between),
            "step": self.steps + (self.activity == "train"), "step_seconds_total": self.in_steps,
            "open_seconds": self.open, "last_checkpoint_time": self.checkpoint,
            "last_step_time": self.stepped,
        }  # fmt: skip
        of = rank_state if self.gone is None else lambda rank, **how: dead(rank, self.gone, **how)
        return snapshot(*(of(rank, run_uid=f"{self.attempt}-{rank}", **changes) for rank in range(4)), time=self.time)

    def look(self, stalled=False, tell=True):
        """The hub passes by; and is restarted meanwhile."""
        steps, self.told = (self.told, []) if tell else ((), self.told)
        seen = self.state()
        if self.account.is_other_job(seen):
            self.account = Account("job")
        self.account.update(seen, steps, STEP, stalled)
        self.account = msgspec.json.decode(msgspec.json.encode(self.account), type=Account)


def rounded(account):
    return {cause: round(seconds, 6) for cause, seconds in account.causes.items() if round(seconds, 6)}
