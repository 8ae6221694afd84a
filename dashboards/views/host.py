"""Which host of the job a reader looks at: one, or all of them."""

from dashboards.asking import Unreachable
from dashboards.queries import quoted
from dashboards.views import frame
from dashboards.views.seen import Seen

ALL_HOSTS = "all of the job's"
HOSTS = "group by (host) (zmon:job_host:ranks{job_id=$job})"


def choose(seen: Seen) -> None:
    """The one in the URL can be left again whoever answers."""
    try:
        found = seen.prometheus.then(HOSTS.replace("$job", quoted(seen.job_id or "")), seen.span.end)
    except Unreachable:
        found = []
    names = {sample.labels["host"] for sample in found} | {host for host in [seen.address.host] if host}
    frame.chosen(
        "Host",
        [ALL_HOSTS, *sorted(names)],
        seen.address.host or ALL_HOSTS,
        lambda host: seen.address.moved(host=None if host == ALL_HOSTS else host),
    )
