"""Every case of work that is split unevenly, over ranks, stages or steps: the rows of the detector `imbalance`."""

import random
from dataclasses import replace
from functools import partial
from itertools import count, product

from tests.build import dead, plan
from tests.detectors.slow.case import Case, Resolution
from tests.detectors.slow.slow_jobs import apart
from tests.detectors.slow.uneven_jobs import (
    SECOND,
    SKEWED_SECONDS,
    SKEWED_STEPS,
    even,
    job,
    job_of,
    late_in,
    pipeline,
    slow_computing,
    slow_loader,
    uneven,
    with_longer,
    with_lookups,
)
from tests.steps import changed

MANY_TABLES = plan(("a",), ("b",), tuple(f"table-{n:03}" for n in range(400)), ("c",), num_tables=(1, 1, 2000, 1))
NO_PLAN = plan((), (), (), (), received_bytes=(None,) * 4, num_tables=(None,) * 4)
SIZES_AND_SEEDS = tuple(product((2, 4, 8), range(20)))
LOOKUPS = ((1000, 3000, 1000, 2000), (2000, 1000, 3000, 1000), (3000, 1000, 2000, 1000), (1000, 2000, 1000, 3000))


def pooled(size_and_seed):
    """Return a job of this size whose work varies fivefold at random, by rank and step."""
    size, seed = size_and_seed
    draw = random.Random(seed)
    steps = []
    for _ in range(24):
        factors = [draw.choice((1, 5)) for _ in range(size)]
        (step,) = uneven(*factors, seconds=[0.006 * f for f in factors], number=1)
        steps.append(changed(step, lookups=tuple(round(1000 * f) for f in factors)))
    return job_of(steps)


def tables_on_half():
    """Return a job in which half of the ranks hold tables, the others dense layers."""
    steps = uneven(1.0, 1.0, 0.0, 0.0, seconds=[0.020, 0.020, 0.010, 0.010])
    return job_of([changed(step, sent_bytes=step.received_bytes) for step in steps])


def late(phase, seconds, duration=90, size=4, ranks=None):
    """Return a job in which in each step a different rank is late, one of `ranks`, or of all."""
    return job((duration, lambda draw: late_in(phase, seconds, draw, size, ranks)), size=size)


def by_work():
    """Return a job whose ranks take as long as their lookups of the step need."""
    numbers = count(1)

    def step(_):
        return [{"data": 0.010, "forward": 0.080e-3 * lookups} for lookups in LOOKUPS[next(numbers) % len(LOOKUPS)]]

    return job((90, step), lookups=LOOKUPS)


def sometimes(draw):
    """Return a step in which rank 2 waits for its data, in a third of all steps: too few for a straggler."""
    return late_in("data", 0.4 if draw.random() < 0.33 else 0.0, draw, ranks=(2,))


def scaled(draw, factor=None):
    """Return a step whose ranks compute longer, by a factor that all have in common, or by one each from 1 to 6."""
    return [{**p, "forward": p["forward"] * (factor or draw.uniform(1, 6))} for p in even(draw)]


def contended(before_and_after):
    """Return a job of even ranks whose cores others use for 2 s; it has the seconds before and after."""
    before, after = before_and_after
    return job((before, even), (2, scaled), (after, even))


def paused():
    """Return a job that loses a little in each step, and whose host pauses once."""
    small = (28, slow_computing)
    return job(small, (0.1, lambda draw: late_in("data", 40.0, draw)), small)


def meeting_every_tenth_step():
    """Return a job with local SGD: its ranks vary, and wait for each other in one step of ten."""
    of_job = job((90, slow_loader))
    alone = [changed(s, exposed={"all_reduce": (0.0,) * 4}) if s.step % 10 else s for s in of_job.steps]
    windows = [replace(window, lost_ratio=window.lost_ratio / 10) for window in of_job.step_windows]
    return replace(of_job, steps=tuple(alone), step_windows=tuple(windows))


def sampled_pauses():
    """Return a job with a pause of some rank in every eighth step, the one that is sampled."""
    numbers = count(1)

    def step(draw):
        return late_in("forward", 0.100 if next(numbers) % 8 == 0 else 0.0, draw)

    return job((60, step), scale=0.1, every=8)


def of_older_hub():
    """Return a job with slow loaders, whose step windows do not say what is lost."""
    of_job = job((90, slow_loader))
    return replace(of_job, step_windows=tuple(replace(window, lost_ratio=None) for window in of_job.step_windows))


def stages_by_turns():
    """Return a job of two stages, of which one and then the other computes longer."""
    numbers = count()

    def step(draw):
        return with_longer(1.6, SECOND if next(numbers) % 2 else range(4))(draw)

    return pipeline((60, step))


jitter = partial(Case, says=("a different one in each step",))


def uneven_apart():
    """Return a job without collectives, of which rank 2 has three times the lookups."""
    whole = apart(forward=0.130)
    return replace(whole, steps=tuple(changed(step, lookups=(100, 100, 300, 100)) for step in whole.steps))


CASES = (
    # One rank always has more work.
    Case("a rank receives nine times the bytes of the others", lambda: job_of(SKEWED_STEPS), "all_to_all_skew", (2,),
         says=("rank 2 on node-2 receives in all_to_all 9.1 × as much as the others (threshold 2 ×)",
               "180,000 bytes per step against 19,800", "Which tables or experts does rank 2 hold?"),
         hides="planned,", lost=0.667),
    Case("a rank sends three times the bytes of the others",
         lambda: job_of(uneven(1, 3, 1, 1, seconds=[0.010, 0.020, 0.010, 0.010], direction="sent_bytes")),
         "all_to_all_skew", (1,), says=("sends in all_to_all 3.0 ×",)),
    Case("rank 0 of three receives six times the bytes of the others", lambda: job_of(uneven(3.0, 0.5, 0.5)),
         "all_to_all_skew", (0,)),
    Case("a rank of two receives three times the bytes of the other",
         lambda: job_of(uneven(0.5, 1.5, seconds=[0.010, 0.020])), "all_to_all_skew", (1,)),
    Case("a rank receives five times the bytes, and all ranks compute equally long",
         lambda: job_of(uneven(0.5, 0.5, 2.5, 0.5, seconds=[0.010] * 4)), "all_to_all_skew", (2,)),
    Case("a rank receives five times the bytes, and hardly any exchange is exposed",
         lambda: job_of(uneven(0.5, 0.5, 2.5, 0.5, seconds=[0.029] * 4))),
    Case("a rank has three times the lookups of the others", lambda: job_of(with_lookups(1000, 1000, 3000, 1000)),
         "lookup_skew", (2,), says=("looks up in its tables 3.0 × as much as the others",)),
    Case("a rank has all lookups", lambda: job_of(with_lookups(0, 0, 1000, 0)), "lookup_skew", (2,),
         says=("rank 2 on node-2 looks up in its tables and the others do not (threshold 2 ×): 1,000 ids per step "
               "against 0;", "uneven_ratio=None")),
    Case("some rank does not report its lookups", lambda: job_of(with_lookups(None, 1000, 3000, 1000))),
    Case("a rank receives three times the bytes that were planned", lambda: job_of(SKEWED_STEPS, plan()),
         "all_to_all_skew", (2,),
         says=("; it holds t2; 60,000 bytes were planned, it has 3.0 × that Rank 2 holds t2. Move some to other ranks",
               "`zmon status --job job`")),
    Case("a rank has as many lookups as were planned, nearly three times those of the others",
         lambda: job_of(with_lookups(1000, 1000, 3000, 1000), plan(lookups=(1000, 1000, 2900, 1000))), "lookup_skew",
         (2,), says=("; it holds t2; 2,900 ids were planned, it has 1.0 × that",)),
    Case("a rank with 2,000 tables receives nine times the bytes", lambda: job_of(SKEWED_STEPS, MANY_TABLES),
         "all_to_all_skew", (2,),
         says=("it holds table-000, table-001, table-002, table-003, table-004 and 1995 more;",)),
    Case("a rank receives nine times the bytes, and the plan has no amounts", lambda: job_of(SKEWED_STEPS, NO_PLAN),
         "all_to_all_skew", (2,), says=("(threshold 10%) Which tables or experts does rank 2 hold?",)),
    Case("a rank receives nine times the bytes, and none were planned",
         lambda: job_of(SKEWED_STEPS, plan(received_bytes=(0,) * 4)), "all_to_all_skew", (2,),
         says=("it holds t2; 0 bytes were planned Rank 2",)),
    Case("all ranks receive more than was planned",
         lambda: job_of(uneven(1, 1, 1, 1), plan(received_bytes=(1000,) * 4))),
    Case("bytes or lookups are even", job_of, over=(uneven(1, 1, 1, 1), with_lookups(1000, 1000, 1000, 1000))),
    Case("tables do not divide evenly", lambda: job_of(uneven(0.8, 0.8, 1.4, 1.0))),
    Case("pooling factors of 2, 4 or 8 ranks vary at random", pooled, over=SIZES_AND_SEEDS),
    Case("a rank has ninety times the bytes in a few steps",
         lambda: job_of([*uneven(1, 1, 1, 1, number=60), *uneven(1, 1, 90, 1, seconds=[0.01, 0.01, 0.02, 0.01],
                                                                 number=4)])),
    Case("a rank is slow and has an even share", lambda: job_of(uneven(1, 1, 1, 1, seconds=[0.01, 0.01, 0.028, 0.01]))),
    Case("a rank receives more in `all_reduce`, `all_gather` or `broadcast`",
         lambda op: job_of(uneven(0.33, 0.33, 3.0, 0.33, seconds=SKEWED_SECONDS, op=op)),
         over=("all_reduce", "all_gather", "broadcast")),
    Case("half of the ranks take no part in the exchange", tables_on_half),
    Case("a rank receives nine times the bytes in 15 steps or fewer", lambda number: job_of(SKEWED_STEPS[:number]),
         over=(0, 5, 15)),
    Case("a rank received nine times the bytes in a job that has ended", lambda: job_of(SKEWED_STEPS, state=dead)),
    # A stage of a pipeline is longer than the others.
    Case("the ranks of a stage compute 60 % longer", lambda: pipeline((60, with_longer(1.6))), "stage_imbalance",
         says=("the stage of ranks 4–7 takes 4", "do not drain it", "'ranks 0–3'", "role='ranks 4–7'"), hides="cordon",
         lost=0.27),
    Case("two stages are longer in turn", stages_by_turns, "compute_jitter", (), "info"),
    Case("a stage is longer for 2 s", lambda: pipeline((2, with_longer(1.6)))),
    # In each step a different rank is late.
    jitter("in each step a different rank waits for its data",
           lambda: job((90, slow_loader)), "input_jitter", lost=0.282,
           says=("a different one in each step", "(mostly in data)", "(threshold 10%)", "samples/s instead of 3",
                 "lost_ratio_by_phase={'data': 1.0}")),
    jitter("in each step a different rank computes longer",
           lambda: job((90, slow_computing)), "compute_jitter", lost=0.282,
           says=("a different one in each step", "(mostly in forward)", "lost_ratio_by_phase={'forward': 1.0}")),
    jitter("in each step a different rank waits for its data, and ranks do not report their samples",
           lambda: job((90, slow_loader), samples=None), "input_jitter", hides="samples/s"),
    jitter("in each step a different rank of 4 or 16 waits for its data",
           lambda size: late("data", 0.3, 60, size), "input_jitter", over=(4, 16)),
    jitter("in each step the other rank of two waits for its data",
           lambda: late("data", 0.3, 60, 2), "input_jitter", (), "info"),
    jitter("a different rank waits for its data in each short step, and each or every eighth is sampled",
           lambda every: job((60, slow_loader), scale=0.1, every=every), "input_jitter", (), "info", over=(1, 8)),
    jitter("in each step a different rank copies its data for longer", lambda: late("h2d", 0.150), "input_jitter"),
    Case("a job has lost 28 % of each step for 20 s", lambda: job((20, slow_loader))),
    jitter("a job has lost 28 % of each step for 50 s", lambda: job((50, slow_loader)), "input_jitter", (), "info"),
    jitter("a job has lost half of each step for 60 s", lambda: late("data", 0.6, 60), "input_jitter"),
    Case("ranks take as long as their lookups of the step need", by_work, "work_imbalance", lost=0.333,
         says=("its samples, tokens, lookups or bytes of that step", "worked_ratio=1.0")),
    jitter("in each step a different rank waits for its data, whatever its lookups are",
           lambda: job((90, slow_loader), lookups=LOOKUPS),
           "input_jitter"),
    Case("a rank waits for its data in a third of the steps", lambda: job((90, sometimes)), "input_jitter", (), "info",
         says=("which changes from step to step (rank 2 for 97%",)),
    Case("a job loses little in each step, and a host pauses once", paused, "compute_jitter", (), "info"),
    Case("ranks vary little", lambda: job((180, even))),
    Case("a job loses 8 % of each step", lambda: late("data", 0.030, 300)),
    Case("one rank is always late, by a little or by much", lambda seconds: late("forward", seconds, 180, ranks=(1,)),
         over=(0.03, 0.2)),
    Case("pooling varies equally on all ranks", lambda: job((180, lambda draw: scaled(draw, draw.uniform(1, 5) / 3)))),
    Case("cores are contended for 2 s", contended, over=tuple(product((0, 7, 60, 63), (0, 3, 15, 40)))),
    Case("a rank pauses for the time of ten steps",
         lambda: job((60, even), (0.1, lambda draw: late_in("forward", 2.5, draw)), (30, even))),
    Case("caches and queues of a young job fill", lambda after: job((10, slow_loader), (after, even)), over=(20, 60)),
    Case("caches are cold after an evaluation", lambda: job((60, even), (4, slow_loader), (5, even))),
    Case("steps of 2 ms vary by a third, as the operating system alone makes them",
         lambda: job((30, lambda draw: even(draw, spread=0.35)), scale=0.008, every=64)),
    Case("ranks do not wait for each other", lambda: job((90, slow_loader), op=None)),
    Case("ranks wait for each other in every tenth step only", meeting_every_tenth_step),
    Case("a pause is in every sampled step, and in no other", sampled_pauses),
    Case("a job with slow loaders has ended", lambda: job((90, slow_loader), ranks=tuple(map(dead, range(4))))),
    Case("the hub is of an older version, which did not measure what is lost", of_older_hub),
    Case("a rank has three times the lookups, and no rank enters collectives", uneven_apart),
)  # fmt: skip

# -- how findings end ----------------------------------------------------------------------------------------


def loading_unevenly():
    """Return a job in which a different rank waits for its data in each step."""
    return job((90, slow_loader))


def losing_less():
    """Return the job after the loaders became faster: it loses less than the threshold."""
    return job((90, slow_loader), (30, lambda draw: late_in("data", 0.030, draw)))


RESOLUTIONS = (
    Resolution("few steps are known", lambda: job_of(SKEWED_STEPS), lambda: job_of(()), False),
    Resolution("enough steps are known", lambda: job_of(SKEWED_STEPS), lambda: job_of(SKEWED_STEPS), True),
    Resolution("the stage is still 15 % longer or more", lambda: pipeline((60, with_longer(1.6))),
               lambda factor: pipeline((60, with_longer(factor))), False, over=(1.6, 1.15)),
    Resolution("the stages are even", lambda: pipeline((60, with_longer(1.6))),
               lambda: pipeline((60, with_longer(1.0))), True),
    Resolution("the job has no stages any more", lambda: pipeline((60, with_longer(1.6))),
               lambda: pipeline((60, with_longer(1.0)), groups=(range(8),)), True),
    Resolution("the loaders keep up again", loading_unevenly, lambda: job((90, slow_loader), (30, even)), True),
    Resolution("the job loses as much as before", loading_unevenly, loading_unevenly, False),
    Resolution("the job still loses more than half of the threshold", loading_unevenly, losing_less, False),
    Resolution("the job loses less, and no steps are known", loading_unevenly, lambda: replace(losing_less(), steps=()),
               False),
    Resolution("the loss has another cause", loading_unevenly, lambda: job((90, slow_computing)), True),
)  # fmt: skip
