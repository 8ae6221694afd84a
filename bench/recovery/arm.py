"""Run one arm: train on the stage of one host, strike a rank now and then, and record each recovery."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import TextIO

import msgspec

from bench.recovery.figures import ArmRun, Recovery
from bench.recovery.progress import Training
from lab import jobs
from lab.drills.acts import CLOCK_SECONDS
from lab.stage import JobSpec, Stage
from lab.stage.launched import Launched, launch
from lab.stage.supervised import HOST
from zmon.errors import PartFailed
from zmon.process import ExitWatch
from zmon.schema.act import ACTED, CAPTURE

STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # a variable of torchrun: "1": a store of each launch's own
CHECKPOINT_STEPS = 50
START_SECONDS = 120.0  # a job must train by then
LEARN_SECONDS = 15.0  # the least time from the first step to the first fault: the leases are learned by then
_RESTARTS_PER_FAULT = 20  # far more than a recovery takes, so that torchrun never gives up
_AFTER_STEPS = 2  # the step that is under way when a rank is struck may still end
_POLL_SECONDS = 0.1


class Arm(msgspec.Struct, frozen=True):
    """One way to run the training under faults."""

    name: str  # also the name of its folder; the id of its job is `recovery-` and this name
    kinds: tuple[str, ...]  # of its faults, in order
    acts: bool  # zmon acts
    has_own_store: bool = True  # each launch has its own store; False: all launches use that of torchrun


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of all arms, and the seed of ranks and moments."""

    every: float  # seconds between two faults
    faults: int
    ranks: int
    step_seconds: float  # how long a step waits, in addition to the trainer's own work
    cap: float  # seconds after which a recovery is given up
    seed: int


def run_arm(arm: Arm, sizes: Sizes, stage: Stage, num_steps: int | None) -> ArmRun:
    """Train for `num_steps`; None: as long as all faults of the sizes take. Raises PartFailed if the job fails."""
    job = _start(arm, sizes, stage)
    try:
        return _Run(arm, sizes, stage, job).train(num_steps)
    finally:
        job.end()


def _start(arm: Arm, sizes: Sizes, stage: Stage) -> Launched:
    spec = JobSpec(f"recovery-{arm.name}", "trainer", sizes.ranks, sizes.step_seconds)
    folder = stage.folder / "jobs" / spec.job_id
    folder.mkdir(parents=True)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={sizes.ranks}"),
        *(f"--max-restarts={_RESTARTS_PER_FAULT * (len(arm.kinds) + 1)}", "-m", "bench.recovery.job"),
        *(str(folder), str(sizes.step_seconds), "--resume", "auto", "--steps", "0"),
        *("--set", f"checkpoint.folder={folder / 'checkpoints'}", "--set", f"checkpoint.every={CHECKPOINT_STEPS}"),
    ]
    environment = jobs.environment(spec, folder, stage.folder / "boxes") | {"ZMON_HOST": HOST}
    environment |= {STORE: "1"} if arm.has_own_store else {}
    return launch(spec, folder, [(command, environment)])


class _Run:
    """A running job of one arm."""

    def __init__(self, arm: Arm, sizes: Sizes, stage: Stage, job: Launched) -> None:
        self._arm = arm
        self._sizes = sizes
        self._stage = stage
        self._job = job
        self._random = random.Random(f"{sizes.seed} {arm.name}")
        self._training = Training()
        self._files = dict[int, TextIO]()

    def train(self, num_steps: int | None) -> ArmRun:
        """Train, and strike a rank from time to time."""
        sizes = self._sizes
        self._wait(lambda: self._read_events().newest.number > 1, START_SECONDS)
        began = self._training.began or time.time()
        recoveries = []
        # The number of lost steps depends on the position of a fault between two checkpoints: the position is uniform.
        longest = CHECKPOINT_STEPS * self._training.usual_seconds
        shifts = sorted(self._random.uniform(0.0, longest) for _ in self._arm.kinds)  # so faults are `every` apart
        for number, (kind, shift) in enumerate(zip(self._arm.kinds, shifts, strict=True)):
            self._train_until(max(began + LEARN_SECONDS, began + (number + 0.5) * sizes.every) + shift)
            recoveries.append(self._strike(kind))
            print(f"  {recoveries[-1]}", file=sys.stderr, flush=True)
        if num_steps is None:
            self._train_until(began + sizes.faults * sizes.every)
            num_steps = self._read_events().newest.number
        elif all(recovery.lost_seconds is not None for recovery in recoveries):
            target = num_steps
            self._wait(lambda: self._read_events().newest.number >= target, 2 * sizes.faults * sizes.every + sizes.cap)
        end = self._training.reached(num_steps)  # None: a rank is still frozen
        seconds = None if end is None else end - began
        usual = self._training.usual_seconds
        return ArmRun(self._arm.name, num_steps, seconds, usual, tuple(recoveries), os.getloadavg()[0])

    def _strike(self, kind: str) -> Recovery:
        """Strike a rank, and wait until the job has done more steps than before, or for the cap.

        Meanwhile, the deaths of the ranks are dated.
        """
        sizes = self._sizes
        rank = self._random.randrange(sizes.ranks)
        usual = self._read_events().usual_seconds
        living = [ExitWatch(self._training.ranks[number][-1].pid) for number in range(sizes.ranks)]
        living[rank].send(signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        onset = time.time()
        last_death = None
        last = self._read_events().newest
        until = onset + sizes.cap
        target = last.number + _AFTER_STEPS
        while time.time() < until and self._read_events().newest.number < target:
            if not living:
                time.sleep(_POLL_SECONDS)
            elif living[0].ended(_POLL_SECONDS):
                last_death = time.time()
                living.pop(0).close()
        for watch in living:
            watch.close()
        if living:  # not all ranks have died
            last_death = None
        regained = self._training.reached(target)
        lost = None if regained is None else regained - last.end - _AFTER_STEPS * usual
        launches = self._training.num_launches(onset)
        moments = self._moments(onset, last_death, regained)
        return Recovery(kind, rank, last.number, lost, sizes.cap, launches, moments)

    def _moments(self, onset: float, last_death: float | None, regained: float | None) -> dict[str, float]:
        """Return the seconds from the onset to each moment of the recovery that is known."""
        job_id = self._job.spec.job_id
        new = self._training.relaunched(onset)
        detected = [finding.detected for finding in self._stage.findings(job_id, active=False)]
        intents = [intent for intent in self._stage.intents() or () if intent.job_id == job_id]
        acts = [intent for intent in intents if intent.act != CAPTURE and intent.result == ACTED]
        moments = {
            "finding": min((time for time in detected if time >= onset - CLOCK_SECONDS), default=None),
            "act": min((act.time for act in acts if act.time >= onset), default=None),
            "last death": last_death,
            "relaunch": min((launch.began for launch in new), default=None),
            "torch": max((launch.imported for launch in new if launch.imported), default=None),
            "ready": max((launch.ready for launch in new if launch.ready), default=None),
            "first step": max((launch.steps[0].end for launch in new), default=None),
            "regained": regained,
        }
        return {name: moment - onset for name, moment in moments.items() if moment is not None}

    def _read_events(self) -> Training:
        """Read the events that the ranks have written since the last call; return the whole training."""
        for rank in range(self._sizes.ranks):
            if rank not in self._files:
                path = self._job.folder / f"events-{rank}"
                if not path.exists():
                    continue
                self._files[rank] = path.open()
            while line := self._files[rank].readline():
                self._training.add(rank, line)
        return self._training

    def _train_until(self, seconds: float) -> None:
        self._wait(lambda: time.time() >= seconds, seconds - time.time() + 1.0)

    def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if self._job.exit_code() is not None or time.monotonic() > deadline:
                raise PartFailed("the job of the benchmark does not train", "it failed", f"see {self._job.folder}/log")
            time.sleep(_POLL_SECONDS)
