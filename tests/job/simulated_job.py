"""A simulated job for tests of the time account."""

from dataclasses import dataclass, field, replace
from functools import cache, partial

import msgspec

from tests.build import NOW, dead, rank_state, snapshot, step_record
from tests.steps import aligned
from zmon.job.time_account import Account

STEP = 0.020  # seconds of a step in which no event of the test happens
SAME_FIELDS = (  # of the simulated job and of each of its ranks
    "attempt", "activity", "between_seconds", "step_seconds_total", "steps", "open_seconds", "last_checkpoint_time",
    "last_step_time",
)  # fmt: skip


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
    between_seconds: dict = field(default_factory=dict)  # by activity between steps
    step_seconds_total: float = 0.0  # in steps of this launch
    steps: int = 0
    open_seconds: float = 0.0  # of the current step or activity so far
    last_checkpoint_time: float | None = None
    last_step_time: float | None = None  # when the last step ended
    new_steps: list = field(default_factory=list)  # steps that the account has not received yet
    gone_seconds: float | None = None  # since the ranks died; None while they live
    total_seconds: float = 0.0  # wall-clock so far, which the account must have

    def wait(self, seconds):
        """Let time pass in the current activity."""
        self.time += seconds
        self.open_seconds += seconds
        self.total_seconds += seconds
        if self.gone_seconds is not None:
            self.gone_seconds += seconds

    def change_activity(self, activity):
        """Change to another activity."""
        if self.activity == "checkpoint":
            self.last_checkpoint_time = self.time
        seconds = self.between_seconds.get(self.activity, 0.0) + self.open_seconds
        self.between_seconds = {**self.between_seconds, self.activity: seconds}
        self.activity = activity
        self.open_seconds = 0.0

    def train(self, number):
        """Do a number of steps. Time that has passed in the open step is part of the first one."""
        if self.activity != "train":
            self.change_activity("train")
        for _ in range(number):
            self.wait(STEP)
            self.steps += 1
            self.new_steps.append(replace(step_that_waits(self.open_seconds - STEP / 2), step=self.steps))
            self.step_seconds_total += self.open_seconds
            self.last_step_time = self.time
            self.open_seconds = 0.0

    def restart(self, after):
        """Start another launch, `after` seconds after the end of the previous launch."""
        self.time += after - (self.gone_seconds or 0.0)
        self.total_seconds += after - (self.gone_seconds or 0.0)
        self.attempt += 1
        self.activity = "init"
        self.between_seconds = {}
        self.step_seconds_total = 0.0
        self.open_seconds = 0.0
        self.gone_seconds = None
        self.last_checkpoint_time = None
        self.new_steps = []

    def play(self, story):
        """Let events happen, such as `train 100, update, eval 5, update stalled`; return the account.

        train N: the ranks do N steps. wait S: S seconds pass. update: the account gets a snapshot and the new steps;
        `update stalled`: in a stall, `update late`: without the steps. lose all but N: only the last N new steps reach
        the account. die: all ranks die. restart S: the next launch starts S seconds after the death. Any other event
        is an activity that lasts for these seconds, such as `eval 5`.
        """
        for event in story.split(", "):
            verb, _, rest = event.partition(" ")
            if verb == "update":
                self.update(stalled=rest == "stalled", with_records=rest != "late")
            elif verb == "train":
                self.train(int(rest))
            elif verb == "lose":
                self.new_steps = self.new_steps[-int(rest.removeprefix("all but ")) :]
            elif verb == "die":
                self.gone_seconds = 0.0
            elif verb == "restart":
                self.restart(after=float(rest))
            else:
                if verb != "wait":
                    self.change_activity(verb)
                self.wait(float(rest))
        return self.account

    def snapshot_now(self):
        """Return the snapshot of the job now."""
        changes = {name: getattr(self, name) for name in SAME_FIELDS}
        changes["step"] = self.steps + (self.activity == "train")
        make = rank_state if self.gone_seconds is None else partial(dead, gone=self.gone_seconds)
        return snapshot(*(make(rank, run_uid=f"{self.attempt}-{rank}", **changes) for rank in range(4)), time=self.time)

    def update(self, stalled=False, with_records=True):
        """Update the account as a pass of the hub does; then store and load it, as a restart of the hub does."""
        steps = ()
        if with_records:
            steps, self.new_steps = self.new_steps, []
        current = self.snapshot_now()
        if self.account.is_other_job(current):
            self.account = Account("job")
        self.account.update(current, steps, STEP, stalled)
        self.account = msgspec.json.decode(msgspec.json.encode(self.account), type=Account)


def rounded_categories(account):
    """Return the seconds of all time categories that are not zero, rounded to microseconds."""
    return {cause: round(seconds, 6) for cause, seconds in account.causes.items() if round(seconds, 6)}
