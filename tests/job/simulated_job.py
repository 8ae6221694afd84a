"""A simulated job for tests of the time account."""

from dataclasses import dataclass, field, replace
from functools import cache

import msgspec

from tests.build import NOW, dead, rank_state, snapshot, step_record
from tests.steps import aligned
from zmon.job.time_account import Account

STEP = 0.020  # seconds of a step in which no rank waits for an event of the test


@cache  # nearly all steps wait equally long
def step_that_waits(seconds):
    """Return a step of four ranks that compute for half of `STEP` and wait for these seconds."""
    return aligned(1, [step_record(1, {"forward": STEP / 2}, {"all_to_all": seconds})] * 4)


@dataclass
class SimulatedJob:
    """A simulated job of four ranks. The test plays its events and updates its account."""

    account: Account = field(default_factory=lambda: Account("job"))
    time: float = NOW
    attempt: int = 0
    activity: str = "init"
    between: dict = field(default_factory=dict)  # seconds in each activity between steps
    in_steps: float = 0.0  # seconds in steps of this launch
    steps: int = 0
    open: float = 0.0  # seconds of the current step or activity so far
    checkpoint: float | None = None  # time of the last checkpoint
    stepped: float | None = None  # time at which the last step ended
    new_steps: list = field(default_factory=list)  # steps that the account has not received yet
    gone: float | None = None  # seconds since the ranks died, or None while they live
    total_seconds: float = 0.0  # wall-clock so far, which the account must have

    def wait(self, seconds):
        """Let time pass in the current activity."""
        self.time += seconds
        self.open += seconds
        self.total_seconds += seconds
        if self.gone is not None:
            self.gone += seconds

    def change_activity(self, activity):
        """Change to another activity."""
        if self.activity == "checkpoint":
            self.checkpoint = self.time
        self.between = {**self.between, self.activity: self.between.get(self.activity, 0.0) + self.open}
        self.activity = activity
        self.open = 0.0

    def train(self, number):
        """Do a number of steps. Time that has passed in the open step is part of the first one."""
        if self.activity != "train":
            self.change_activity("train")
        for _ in range(number):
            self.wait(STEP)
            self.steps += 1
            self.new_steps.append(replace(step_that_waits(self.open - STEP / 2), step=self.steps))
            self.in_steps += self.open
            self.stepped = self.time
            self.open = 0.0

    def restart(self, after):
        """Start another launch, `after` seconds after the end of the previous launch."""
        self.time += after - (self.gone or 0.0)
        self.total_seconds += after - (self.gone or 0.0)
        self.attempt += 1
        self.activity = "init"
        self.between = {}
        self.in_steps = 0.0
        self.open = 0.0
        self.gone = None
        self.checkpoint = None
        self.new_steps = []

    def play(self, story):
        """Let events happen, such as `train 100, update, eval 5, update stalled`; return the account.

        `train` has a number of steps, and any other activity has its seconds.
        """
        for event in story.split(", "):
            verb, _, rest = event.partition(" ")
            if verb == "update":
                self.update(stalled=rest == "stalled", with_records=rest != "late")
            elif verb == "train":
                self.train(int(rest))
            elif verb == "lose":  # "lose all but 3": the account gets the records of the last three steps only
                self.new_steps = self.new_steps[-int(rest.removeprefix("all but ")) :]
            elif verb == "die":
                self.gone = 0.0
            elif verb == "restart":
                self.restart(after=float(rest))
            else:
                if verb != "wait":
                    self.change_activity(verb)
                self.wait(float(rest))
        return self.account

    def state(self):
        """Return the snapshot of the job now."""
        changes = {
            "attempt": self.attempt, "activity": self.activity, "between_seconds": dict(self.between),
            "step": self.steps + (self.activity == "train"), "steps": self.steps, "step_seconds_total": self.in_steps,
            "open_seconds": self.open, "last_checkpoint_time": self.checkpoint,
            "last_step_time": self.stepped,
        }  # fmt: skip
        make = rank_state if self.gone is None else lambda rank, **fields: dead(rank, self.gone, **fields)
        return snapshot(*(make(rank, run_uid=f"{self.attempt}-{rank}", **changes) for rank in range(4)), time=self.time)

    def update(self, stalled=False, with_records=True):
        """Update the account as a pass of the hub does; then store and load it, as a restart of the hub does."""
        steps = ()
        if with_records:
            steps, self.new_steps = self.new_steps, []
        snapshot_now = self.state()
        if self.account.is_other_job(snapshot_now):
            self.account = Account("job")
        self.account.update(snapshot_now, steps, STEP, stalled)
        self.account = msgspec.json.decode(msgspec.json.encode(self.account), type=Account)


def rounded_categories(account):
    """Return the seconds of all time categories that are not zero, rounded to microseconds."""
    return {cause: round(seconds, 6) for cause, seconds in account.causes.items() if round(seconds, 6)}
