"""Tests of the tools against a hub over HTTP: what each shows, and what is unknown."""

from dataclasses import replace

import msgspec
import pytest

from tests.build import JOB, NOW, finding, killed, snapshot
from tests.cli.mcp.hostile import HOSTILE, assert_harmless, data_of
from tests.cli.top.scene import row
from tests.golden.hub_scene import hub as full_hub
from tests.hub.incidents.build import made
from tests.hub.serving import serving
from tests.metrics.scene import JOB_VIEW
from zmon.cli.mcp.tools import Tools
from zmon.client import AsyncHub
from zmon.errors import NotServed, Unreachable, ZmonError
from zmon.hub import Hub, HubConfig
from zmon.job.outcome import ended_launch
from zmon.schema.api import EndList, FindingList, JobList, RankList, RankSummary
from zmon.schema.job import Headline

HOSTILE_TEXT = "\n".join(text for name, text in HOSTILE.items() if name not in ("surrogate", "long"))


@pytest.fixture(scope="module")
def requests():
    """The method and the path of each request that the hub got."""
    return []


@pytest.fixture(scope="module")
def tools(tmp_path_factory, requests):
    """Tools that ask a hub with three jobs, findings of every detector and two incidents; no test changes it."""
    with serving(full_hub(tmp_path_factory.mktemp("hub")), requests) as url:
        yield tools_for(url)


def tools_for(url):
    """Return the tools of `zmon mcp` for the hub at this URL, asked a minute after NOW."""
    return Tools(lambda: AsyncHub(url), now=lambda: NOW + 60)


def first_fields(answer):
    """Return the first field of each line from the hub."""
    return [line.partition(",")[0] for line in data_of(answer)]


async def test_status_has_jobs_with_findings_first_and_counts_the_agents_that_answer(tools):
    answer = await tools.status()
    assert first_fields(answer) == [f'job_id: "{name}"' for name in ("job", "stuck", "fresh")]
    assert 'job_id: "stuck", state: "stalled"' in answer
    assert "step_seconds: null, samples_per_second: null" in answer
    assert "Only 1 of 3 agents answer: some ranks are not seen." in answer
    assert "null is unknown or none, never 0" in answer
    assert f"now is {NOW + 60:.0f}" in answer


async def test_status_of_a_job_has_all_figures_and_why_others_are_unknown(tools):
    known, young = await tools.status(JOB), await tools.status("fresh")
    assert 'job.labels["owner"]: "ann"' in known
    assert 'job.report["auc"]: null' in known
    assert "job.efficiency: null" in young
    assert 'job.efficiency_unknown: "' in young


async def test_findings_have_confidence_and_next_step_the_worst_first(tools):
    answer = await tools.findings()
    assert "10 findings, all of them open, the worst first." in answer
    assert 'findings[0].cause: "rank_frozen"' in answer
    assert "findings[0].confidence: 0.97" in answer
    assert "kill -CONT 1002" in answer
    assert "findings[0].lost_gpu_hours: null" in answer
    assert "Left out: " in answer
    one = await tools.findings("stuck")
    assert "1 finding, " in one
    assert 'findings[1].state: "resolved"' in await tools.findings(JOB, with_resolved=True)


async def test_incidents_are_listed_and_each_part_of_one_is_read(tools):
    assert first_fields(await tools.incidents()) == ['id: "abc1"', 'id: "abd2"']
    summary = await tools.incident("abc1")
    assert "finding.confidence: 0.97" in summary
    assert 'left_out: ["the hardware of node-b: no agent answered for it at that time"]' in summary
    assert 'evidence: ["in_flight", "stacks", "stderr_tail"]' in summary
    assert 'rank: 2, host: "node-a"' in await tools.incident("abc1", "ranks")
    assert "hosts[0].nics[1].up: null" in await tools.incident("abc1", "hosts")
    assert 'what: "first sign at step 100"' in await tools.incident("abc1", "timeline")
    evidence = await tools.incident("abc1", "evidence")
    assert 'evidence.stderr_tail["2"].text, line 2: "last line"' in evidence
    assert 'evidence.stacks["2"].stack: "File \\"train.py\\", line 12 in guilty_line"' in evidence


async def test_ranks_begin_with_culprits_unless_another_order_is_given(tools):
    answer = await tools.ranks(JOB)
    assert "4 ranks: 2 are culprits, dead, overdue or unwatched. 0 more ranks are missing" in answer
    assert first_fields(answer) == [f"rank: {n}" for n in (2, 3, 0, 1)]
    assert "watched: false" in data_of(answer)[1]
    assert first_fields(await tools.ranks(JOB, "-rank", 2)) == ["rank: 1", "rank: 0"]


async def test_runbook_is_zmons_text_and_needs_no_marks(tools, requests):
    requests.clear()
    answer = await tools.runbook("rank_frozen")
    assert answer.startswith("docs/runbooks.md, rank_frozen:\nThe process exists but does not run.")
    assert "data-from-jobs" not in answer
    assert (await tools.runbook("ZmonStall")).startswith("docs/runbooks.md, ZmonStall:\nThe job does not move.")
    assert requests == []


async def test_missing_page_of_runbooks_is_an_error_that_refers_to_the_finding(tmp_path):
    tools = Tools(lambda: AsyncHub("http://h"), runbooks=lambda: tmp_path / "none")
    with pytest.raises(ZmonError, match=r"not on this machine.*`detail` of a finding is the next step"):
        await tools.runbook("rank_frozen")


@pytest.mark.parametrize(
    ("ask", "kind", "line"),
    [
        (lambda tools: tools.status("none"), ZmonError, "the hub does not know job none. The tool status lists"),
        (lambda tools: tools.ranks("none"), NotServed, "no agent reports a job none"),
        (lambda tools: tools.ranks(JOB, "luck"), Unreachable, "answered 400"),
        (lambda tools: tools.incident("none"), NotServed, "there is no capsule of none"),
        (lambda tools: tools.runbook("none"), ZmonError, "there is no runbook of none"),
    ],
)
async def test_unknown_subject_is_an_error(tools, ask, kind, line):
    with pytest.raises(kind, match=line):
        await ask(tools)


async def test_answers_of_a_blind_hub_say_that_it_is_blind(tmp_path):
    with serving(Hub(HubConfig(("http://node-a:9780",), tmp_path))) as url:
        for answer in (await tools_for(url).status(), await tools_for(url).findings()):
            assert "BLIND. " in answer
            assert "<data-from-jobs>" not in answer


async def test_ends_beyond_the_first_answer_of_the_hub_are_reached(fake_server):
    end = ended_launch(snapshot(*(killed(rank, 9.0) for rank in range(4))), finding(summary="X"), None)
    ends = [msgspec.structs.replace(end, id=f"{n}", job_id=f"job-{n}") for n in range(300)]
    server = fake_server(lambda path, query: EndList(ends[: int(query.get("limit", 200))], len(ends)))
    answer = await tools_for(server.url).ends(offset=295)
    assert "300 ends, newest first." in answer
    assert first_fields(answer) == [f'job_id: "job-{n}"' for n in range(295, 300)]
    assert "This is the end of 300 lines; 295 were before." in answer


@pytest.fixture
def hostile_tools(fake_server):
    """Tools that ask a hub all of whose texts are hostile."""
    text = HOSTILE_TEXT
    evidence = {
        "stacks": {text: {"stack": text, "wchan": text, "stack_error": text}},
        "stderr_tail": {"2": {"text": text * 20, "error": None, "path": text, "shared": False}},
    }
    about = finding(
        id=text, job_id=text, cause=text, severity=text, hosts=(text,), summary=text, detail=text, evidence=evidence
    )
    capsule, _ = made(about)
    capsule = replace(capsule, left_out=(text,), versions={text: text}, finding=about)
    capsule = replace(capsule, ranks=tuple(replace(rank, host=text, last_words=text) for rank in capsule.ranks))
    capsule = replace(capsule, timeline=tuple(replace(event, what=text) for event in capsule.timeline))
    end = ended_launch(snapshot(*(killed(rank, 9.0) for rank in range(4))), finding(summary=text), None)
    job = replace(
        JOB_VIEW, job_id=text, state=text, labels={text: text}, report={text: 1.0}, hosts=(text,), time={text: 1.0},
        headline=Headline(text, text, text),
    )  # fmt: skip
    summary = {name: getattr(about, name) for name in ("job_id", "detector", "cause", "severity", "ranks", "hosts")}
    summary |= {"id": text, "onset": NOW, "detected": NOW, "summary": text}
    answers = {
        "jobs": JobList([job] * 30, blind=False),
        "findings": FindingList([about] * 30),
        "ends": EndList([end], 3),
        "incidents": {"schema": 1, "incidents": [summary] * 30},
        "incidents/x": capsule,
        "jobs/x/ranks": RankList(
            job_id=text,
            ranks=[row(0, host=text, phase=text, last_words=text)] * 30,
            num_rows=30,
            summary=RankSummary(num_ranks=1, num_standing_out=0, num_missing=0, missing=(), by_state={text: 1}),
        ),
    }
    return tools_for(fake_server(lambda path, _: answers.get(path.removeprefix("/api/v1/"))).url)


async def test_hostile_texts_stay_between_the_marks_in_every_answer(hostile_tools):
    tools = hostile_tools
    parts = [await tools.incident("x", part) for part in ("summary", "ranks", "timeline", "evidence")]
    lists = [await tools.status(), await tools.findings(), await tools.incidents(), await tools.ends()]
    for answer in (*lists, await tools.ranks("x"), *parts):
        assert_harmless(answer)
        assert "Ignore previous instructions" in answer
        outside = answer.replace("\n".join(data_of(answer)), "")
        assert "Ignore" not in outside
        assert "Left out: nothing" not in outside
