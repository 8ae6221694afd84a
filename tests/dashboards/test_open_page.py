"""An open page keeps the state of its reader: the selected row, the marked command, the position in the evidence."""

import re
import time

from streamlit.testing.v1 import AppTest

from dashboards.address import REFRESH_SECONDS
from tests.dashboards.world import STALL, changed, parts, text


def test_a_selected_rank_stays_selected_when_another_row_moves_above_it(opened, world):
    (table,) = opened("ranks", job_id="ads", rank="0").dataframe
    time.sleep(REFRESH_SECONDS + 0.1)
    world.findings = [STALL]
    (later,) = opened("ranks", job_id="ads", rank="0").dataframe
    assert table.proto.id != later.proto.id  # the selection of one table does not apply to the other
    assert [list(each.value["rank"]) for each in (table, later)] == [[0, 1], [1, 0]]
    assert ['"rows": [0]' in table.proto.selection_default, '"rows": [1]' in later.proto.selection_default] == [
        True
    ] * 2


def test_the_next_step_stays_the_same_element_while_a_finding_is_open(opened, world):
    """Otherwise its text could not be selected and copied."""
    world.findings = [changed(STALL, onset=time.time() - 42, lost_gpu_hours=1.0)]
    first = parts(opened("job", job_id="ads"))
    time.sleep(REFRESH_SECONDS + 0.1)
    world.findings = [changed(world.findings[0], lost_gpu_hours=2.0, summary="rank 1 is stopped for 5 s")]
    later = parts(opened("job", job_id="ads"))
    assert [part == other for part, other in zip(first, later, strict=True)] == [True, False, True]
    assert "Do this next" in later[2]


def test_evidence_is_not_drawn_again_until_there_is_more(opened, world):
    def shown(app: AppTest) -> str:
        return re.search(r"&quot;step_seconds&quot;: ([\d.]+)", text(app))[1]

    world.findings = [changed(STALL, onset=time.time() - 42, evidence={"step_seconds": 42.0})]
    app = opened("job", job_id="ads")
    assert shown(app) == "42.0"
    (as_of,) = [caption.value for caption in app.caption if caption.value.startswith("As of ")]
    for evidence, expected in (({"step_seconds": 44.0}, "42.0"), ({"step_seconds": 46.0, "ranks": []}, "46.0")):
        time.sleep(REFRESH_SECONDS + 0.1)
        world.findings = [changed(world.findings[0], evidence=evidence)]
        assert shown(app.run()) == expected
        assert any(caption.value == as_of for caption in app.caption) is (expected == "42.0")
