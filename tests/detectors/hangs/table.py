"""Every way in which a job can stand still, with the expected finding: rows that tests judge and a page prints.

`docs/hangs.md` is generated from these rows, and `test_table.py` judges them. Unless a row says otherwise, a job has
four ranks and a lease of 1.5 s, and ranks that wait have been in their collective for 5 s.
"""

from tests.detectors.hangs.after_training import AFTER_TRAINING
from tests.detectors.hangs.awaited import ALONE, AWAITED, FINISHED, LEASES
from tests.detectors.hangs.exits import EXITS
from tests.detectors.hangs.looks import STARTING_LOADERS, SUSPENDED, WAITING_FOR_A_SERVER, WAITING_FOR_ITS_HOST, WORKING
from tests.detectors.hangs.one_rank import ONE_RANK
from tests.detectors.hangs.paths import CROSSED, MISMATCHES, SKIPPED
from tests.detectors.hangs.records import RECORDS
from tests.detectors.hangs.roles import ROLES
from tests.detectors.hangs.silence import FROZEN, MOVING, PAUSES, PLACES, SILENCE

SECTIONS = {
    "Ranks are in different collectives": MISMATCHES,
    "Ranks entered two groups in a different order": CROSSED,
    "A rank skipped a collective": SKIPPED,
    "Ranks wait for ranks in no collective": AWAITED,
    "The job has one rank": ONE_RANK,
    "Flight records show more than Python sees": RECORDS,
    "Ranks have left": FINISHED,
    "Nobody waits for the ranks that go on": ALONE,
    "The training is over": AFTER_TRAINING,
    "Processes do not end": EXITS,
    "Leases of other activities": LEASES,
    "Some ranks never train": ROLES,
    "Processes do not run": FROZEN,
    "Somebody stopped processes on purpose": SUSPENDED,
    "The awaited rank works": WORKING,
    "The awaited rank waits for its own host": WAITING_FOR_ITS_HOST,
    "All ranks start data loaders": STARTING_LOADERS,
    "The awaited rank waits for a server or a driver": WAITING_FOR_A_SERVER,
    "Silence becomes critical": SILENCE,
    "Pauses of this length healed at this place": PAUSES,
    "Ranks move without a step": MOVING,
    "The summary says where ranks stand": PLACES,
}
