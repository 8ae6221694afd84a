"""Rows, acts, findings and true faults of plays, for the tests of drills and of recoveries."""

from lab.drills.score import DrillRow
from lab.drills.truth import TrueFault
from lab.stage import Shown
from zmon.schema.act import ACTED, ENFORCE, KILL_CULPRIT, Intent

ONSET = 1000.0  # unix seconds
ROW = DrillRow(
    "rank-killed", 0, 7, "ddp", 4, 0.02, proof="state", expected=("rank_exited",), rank=2, host="a",
    reported_cause="rank_exited", detector="stall", severity="critical", culprit_right=True, reported_ranks=(2,),
    reported_hosts=("a",), target_seconds=4.0, finding_seconds=0.5, page_seconds=2.0, paged=("ZmonStall",),
)  # fmt: skip
ACT = Intent(
    id="1", rule="frozen", act=KILL_CULPRIT, mode=ENFORCE, time=ONSET + 1, finding="f", job_id="drill-1",
    launch_id="l", attempt=0, cause="rank_frozen", proof="process_state", severity="critical",
    confidence=0.97, ranks=(2,), hosts=("node-a",), run_uids=("u",), step=7, onset=ONSET, labels={}, result=ACTED,
)  # fmt: skip
EXITED = Shown("1", "stall", "rank_exited", "critical", (2,), ("node-a",), ONSET + 1, 0.95)
KILL = TrueFault("drill-1", "kill", 2, "node-a", ONSET, ("rank_exited",))
STOP = TrueFault("drill-1", "stop", 2, "node-a", ONSET, ("rank_frozen",))
RESET = TrueFault("drill-1", "reset", None, "node-a", ONSET, ("connection_lost",))
PAUSE = TrueFault("drill-1", "pause-in-data", 2, "node-a", ONSET, (), ("input_stall",))
CANCEL = TrueFault("drill-1", "cancel-term", None, "node-a", ONSET)
