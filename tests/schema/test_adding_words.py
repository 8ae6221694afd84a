"""Test of new words: all reach the agent's page, phase and op the step log, and the activity the hub's account.

It runs in a process of its own with a changed copy of `names.py`: an activity and an op are new, and a new phase
replaces another one, since a box has room for eight. CONTRIBUTING.md lists the other edits that a new word needs.
"""

import subprocess
import sys

from tests.places import REPOSITORY

SCRIPT_WITH_THREE_WORDS = """
import sys, types
from pathlib import Path

path = Path("zmon/schema/names.py")
source = path.read_text()
changes = {
    '"offload")': '"quantize")',  # a phase
    '"loader_start")\\n': '"loader_start", "tune")\\n',  # activities
    '"recv",': '"recv", "shuffle",',  # ops
}
for old, new in changes.items():
    assert source.count(old) == 1, old
    source = source.replace(old, new)
names = sys.modules["zmon.schema.names"] = types.ModuleType("zmon.schema.names")
exec(compile(source, str(path), "exec"), names.__dict__)

from tests.boxes import Box
from tests.steplog.build import append_once, logged
from zmon.agent.sources.process_table import ProcessTable
from zmon.agent.sources.rank_box import RankBox
from zmon.box import layout
from zmon.job.lease import Leases
from zmon.probe.rank import ACTIVITY_NUMBER, OP_NUMBER, PHASE_NUMBER, TRAIN

root = Path(sys.argv[1])
box = Box(root / "boxes")
box.timeline.turn_to(ACTIVITY_NUMBER["tune"])
box.clock.sleep(5.0)
box.timeline.turn_to(TRAIN)
for _ in range(3):
    box.timeline.begin_step(None)
    box.timeline.phase(PHASE_NUMBER["quantize"])
    box.clock.sleep(0.02)
    box.timeline.enter_op(OP_NUMBER["shuffle"], box.timeline.group("0", 2), 100, 60)
    box.clock.sleep(0.01)
    box.timeline.leave_op()
    box.timeline.end_step()
box.timeline.turn_to(ACTIVITY_NUMBER["tune"])
box.timeline.phase(PHASE_NUMBER["quantize"])
box.timeline.enter_op(OP_NUMBER["shuffle"], box.timeline.group("0", 2), 100, 60)

# -- at the agent
from tests.metrics.scene import page, value

state = RankBox(box.path, "node-a", Leases(), box.clock, ProcessTable()).state()
assert (state.activity, state.phase, state.in_flight.op) == ("tune", "quantize", "shuffle"), state
assert state.lease_seconds == Leases().init_seconds, "another lease needs a line in zmon/job/lease.py"
assert round(state.between_seconds["tune"]) == 5
text = page(state)
assert value(text, "zmon_activity", activity="tune") == 1
assert round(value(text, "zmon_phase_seconds_total", phase="quantize"), 6) == 0.06
assert value(text, "zmon_collectives_total", op="shuffle") == 3  # the fourth is in flight

# -- in the step log
import json
from zmon.offline.analyze.rows import read
from zmon.steplog.table import Table, write_json_lines

append_once(root / "steps", box)
path = root / "steps.jsonl"
with path.open("wb") as file:
    assert write_json_lines(Table.from_runs(logged(root / "steps")), file) == 3
row = json.loads(path.read_text().splitlines()[0])
assert (round(row["phase_quantize"], 6), round(row["exposed_shuffle"], 6)) == (0.02, 0.01), row
(steps,) = read([path]).steps.values()
assert round(steps.values("phase_quantize")[0], 6) == 0.02
assert round(steps.values("exposed_shuffle")[0], 6) == 0.01

# -- at the hub
from tests.build import JOB, rank_state, snapshot
from tests.metrics.scene import hub
from zmon.job.time_account import Account

fields = {"activity": "tune", "between_seconds": {"init": 1.0}, "open_seconds": 7.0, "step_seconds_total": 0.0}
rank = rank_state(0, world_size=1, **fields)
account = Account(JOB)
account.update(snapshot(rank), steps=(), typical_seconds=0.02, stalled=False)
assert account.causes == {"init": 1.0, "tune": 7.0}, account.causes
assert value(hub(), "zmon_job_time_seconds_total", cause="tune") == 0, "the series must exist before it has time"
"""


def test_new_words_reach_agent_step_log_and_hub(tmp_path):
    command = [sys.executable, "-c", SCRIPT_WITH_THREE_WORDS, str(tmp_path)]
    completed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
