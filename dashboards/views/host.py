"""The choice of a host of the job, or of all hosts."""

from dashboards.asking import Unreachable
from dashboards.queries import quoted
from dashboards.views import frame
from dashboards.views.context import ViewContext

ALL_HOSTS = "all hosts of the job"
HOSTS = "group by (host) (zmon:job_host:ranks{job_id=$job})"


def choose(context: ViewContext) -> None:
    """Draw the list of hosts. It always contains the host of the URL, so that it can be deselected."""
    try:
        samples = context.prometheus.query_at(HOSTS.replace("$job", quoted(context.job_id or "")), context.span.end)
    except Unreachable:
        samples = []
    names = {sample.labels["host"] for sample in samples} | {host for host in [context.address.host] if host}
    frame.select(
        "Host",
        [ALL_HOSTS, *sorted(names)],
        context.address.host or ALL_HOSTS,
        lambda host: context.address.moved(host=None if host == ALL_HOSTS else host),
    )
