"""The source of agents that are pods, for a fake API server, and a wait for its requests."""

from tests.hub.fakes import poll
from zmon.hub.discovery.kubernetes import KubernetesTargets
from zmon.web.kubernetes.agent_pods import pod_selection


def source_of(api, token_file):
    """Return the source that asks this API server."""
    return KubernetesTargets(pod_selection("zmon/app=agent"), "http", api.account(token_file))


async def wait_for_requests(requests, number):
    """Wait for this number of requests."""
    assert await poll(lambda: len(requests) >= number), requests
