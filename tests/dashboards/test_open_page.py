"""Does an open page leave a reader what he is at: the row he chose, the command he marks, the line he reads?"""

import re
import time

from streamlit.testing.v1 import AppTest

from dashboards.address import REFRESH_SECONDS
from tests.dashboards.world import STALL, changed, parts, text


def test_the_rank_that_was_chosen_stays_chosen_when_another_comes_to_stand_above_it(opened, world):
    (table,) = opened("ranks", job_id="ads", rank="0").dataframe
    time.sleep(REFRESH_SECONDS + 0.1)
    world.findings = [STALL]
    (later,) = opened("ranks", job_id="ads", rank="0").dataframe
    assert table.proto.id != later.proto.id  # a place that was chosen in one is none in the other
    assert [list(each.value["rank"]) for each in (table, later)] == [[0, 1], [1, 0]]
    assert ['"rows": [0]' in table.proto.selection_default, '"rows": [1]' in later.proto.selection_default] == [
        True
    ] * 2


def test_what_to_do_next_stays_the_same_element_as_long_as_a_finding_stands(opened, world):
    """Else it could not be marked and copied."""
    world.findings = [changed(STALL, onset=time.time() - 42, lost_gpu_hours=1.0)]
    first = parts(opened("job", job_id="ads"))
    time.sleep(REFRESH_SECONDS + 0.1)
    world.findings = [changed(world.findings[0], lost_gpu_hours=2.0, summary="rank 1 is stopped for 5 s")]
    later = parts(opened("job", job_id="ads"))
    assert [one == other for one, other in zip(first, later, strict=True)] == [True, False, True]
    assert "Do this next" in later[2]


def test_evidence_stays_where_a_reader_is_in_it_until_there_is_more(opened, world):
    def shown(app: AppTest) -> str:
        return re.search(r"&quot;step_seconds&quot;: ([\d.]+)", text(app))[1]

    world.findings = [changed(STALL, onset=time.time() - 42, evidence={"step_seconds": 42.0})]
    app = opened("job", job_id="ads")
    assert shown(app) == "42.0"
    (as_of,) = [caption.value for caption in app.caption if caption.value.startswith("As of ")]
    for evidence, told in (({"step_seconds": 44.0}, "42.0"), ({"step_seconds": 46.0, "ranks": []}, "46.0")):
        time.sleep(REFRESH_SECONDS + 0.1)
        world.findings = [changed(world.findings[0], evidence=evidence)]
        assert shown(app.run()) == told
        assert any(caption.value == as_of for caption in app.caption) is (told == "42.0")
