"""Test that threads which decode the first answers at once do not crash the dashboard."""

from tests.decoding_threads import decode_in_threads

SETUP = """
import msgspec
from dashboards import http_requests
from zmon.schema.api import FindingList, JobList

bodies = [(msgspec.json.encode(JobList([], False)), JobList), (msgspec.json.encode(FindingList([])), FindingList)]
"""


def test_first_answers_can_be_decoded_by_threads_at_once():
    decode_in_threads(SETUP, "http_requests._decode(*bodies[number % 2])")
