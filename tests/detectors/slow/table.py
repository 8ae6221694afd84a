"""Every case of a job that moves and loses time: what it does, and what is due, or that the detector is quiet.

docs/slowness.md is generated from these sections, and `test_table.py` judges each of their rows.
"""

from tests.build import dead, rank_state
from tests.detectors.slow import slow_hosts, slow_ranks, slower_jobs, uneven_work
from tests.detectors.slow.case import Case, Section
from tests.detectors.slow.slower_jobs import slow_rank_of_slower
from tests.detectors.slow.uneven_jobs import even, job, late_in, pipeline, slow_loader, with_longer
from zmon.detectors.slow import EfficiencyLow, Imbalance, InputBound, Slowdown, Straggler


def loaders_and_slow_rank(draw):
    """Return a step in which rank 3 computes longer, as in all steps, and another rank waits for its data."""
    row = late_in("data", 0.150, draw)
    return [{**phases, "forward": phases["forward"] + 0.4 * (rank == 3)} for rank, phases in enumerate(row)]


TOGETHER = (
    Case("a job becomes slower because a rank computes longer", slow_rank_of_slower, "compute_straggler", (2,)),
    Case("a job becomes slower because a rank has three times the lookups",
         lambda: slow_rank_of_slower(lookups=(100, 100, 300, 100)), "lookup_skew", (2,)),
    Case("the ranks of a stage compute 60 % longer", lambda: pipeline((60, with_longer(1.6))), "stage_imbalance"),
    Case("the only rank of a stage computes 60 % longer", lambda: pipeline((60, with_longer(1.6, (7,))), groups=()),
         "stage_imbalance", says=("the stage of rank 7 takes",)),
    Case("a stage is 10 % longer", lambda: pipeline((60, with_longer(1.1)))),
    Case("in each step a different rank waits for its data", lambda: job((90, slow_loader)), "input_jitter"),
    Case("in each step a different rank waits for its data, and one rank always computes longer",
         lambda: job((60, even), (60, loaders_and_slow_rank)), "compute_straggler", (3,)),
    Case("in each step a different rank waits for its data, and a rank has died",
         lambda: job((90, slow_loader), ranks=(*map(rank_state, range(3)), dead(3))), "rank_exited", (3,), "critical"),
)  # fmt: skip
SECTIONS = (
    Section("A rank holds the others back", "A rank is compared with the others of its role, step by step. Small, "
            "short or random differences are not reported.", Straggler(), slow_ranks.CASES, slow_ranks.RESOLUTIONS),
    Section("A GPU or a host explains a slow rank", "The hardware of a slow rank is compared with that of the others.",
            Straggler(), slow_hosts.HOST_CASES, slow_hosts.HOST_RESOLUTIONS),
    Section("A link holds the others back", "If no rank is late and collectives take long, the connections of the "
            "hosts are compared.", Straggler(), slow_hosts.NETWORK_CASES, slow_hosts.NETWORK_RESOLUTIONS),
    Section("Work is split unevenly", "One rank or stage always has more work, or in each step a different rank is "
            "late. What costs little is not reported.", Imbalance(), uneven_work.CASES, uneven_work.RESOLUTIONS),
    Section("A job is slower than it was", "The steps of half a minute are compared with the job's baseline.",
            Slowdown(), slower_jobs.SLOWDOWN, slower_jobs.SLOWDOWN_ENDS),
    Section("A job is slower than recorded", "The efficiency is compared with the one that was recorded for jobs of "
            "its name at its size.", EfficiencyLow(), slower_jobs.EFFICIENCY, slower_jobs.EFFICIENCY_ENDS),
    Section("A job is limited by its input", "All ranks wait for data in each step. This is no fault.", InputBound(),
            slower_jobs.INPUT_BOUND, slower_jobs.INPUT_BOUND_ENDS),
    Section("Several detectors see the same fault", "The finding that remains is that of the detector that knows most "
            "about the fault.", None, TOGETHER),
)  # fmt: skip
