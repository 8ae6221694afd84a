"""Answers of the scaling endpoint without HTTP, and the baselines that they are predicted from."""

import msgspec
from multidict import MultiDict
from yarl import URL

from tests.build import JOB
from tests.hub.step_windows import job, step_window
from tests.scaling.test_fit import point
from zmon.hub.api.scaling import scaling_answer, size_query
from zmon.hub.api.view import job_state
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.schema.api import ScalingRequest

ONE_HOST = (point(1, 512), point(4, 2048), point(4, 1024))
TWO_HOSTS = (*ONE_HOST, point(8, 4096))


def answer(store, job_, query="", state=None):
    """Return the answer, as JSON types, to a request with this query."""
    words = MultiDict(URL(f"/?{query}").query)
    what_ifs = tuple(words.getall("what_if", ()))
    request = ScalingRequest(JOB, words.get("ranks"), words.get("batch"), words.get("batch_per_rank"), what_ifs)
    curve_and_model = BaselineRecorder(store).model(job_)
    made = scaling_answer(job_, state or job_state(job_, ()), *curve_and_model, size_query(request))
    return msgspec.to_builtins(made)


def sizes(store, query="", job_=None):
    """Return the sizes in the answer; by default about a job of four ranks that trains."""
    return answer(store, job_ or job(now=step_window()), query)["sizes"]
