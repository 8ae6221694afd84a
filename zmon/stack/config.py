"""Generate the configuration of Prometheus and Alertmanager from the addresses of the parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from zmon.schema.scraping import AGENT_JOB
from zmon.stack.password import USER

# No finding inhibits another one: Alertmanager does not send the resolution of an alert that it inhibits (ADR 0042).
INHIBIT_RULES: tuple[dict[str, list[str]], ...] = (
    {  # the finding names the culprit; the backstop alert only repeats that the job makes no progress
        "source_matchers": ['alertname="ZmonStall"'],
        "target_matchers": ['alertname="ZmonLeaseOverdue"'],
        "equal": ["job_id"],
    },
    {  # without samples, the target alerts are no evidence that a daemon is down
        "source_matchers": ['alertname="ZmonSamplesMissing"'],
        "target_matchers": ['alertname=~"ZmonAgentsAbsent|ZmonHubDown"'],
    },
    {  # if no agent answers at all, one alert is enough
        "source_matchers": ['alertname="ZmonAgentsAbsent"'],
        "target_matchers": ['alertname=~"ZmonAgentDown|ZmonHubDown"'],
    },
)
INTERVAL = "2s"  # short, so that a finding becomes an alert within seconds; one machine has few series


def prometheus_yaml(
    *,
    agents: Sequence[str],
    hub: str,
    alertmanager: str,
    rules: Sequence[str],
    dashboard: str,
    docs: str,
    password_file: str | None = None,
) -> str:
    """Return prometheus.yml: it scrapes agents and hub, loads the rules, and sends the alerts to Alertmanager.

    `agents`, `hub` and `alertmanager` are host:port; `rules` are paths. `dashboard` (a URL) and `docs` (a folder) are
    the targets of the links in alerts. Rules read them from external labels, which are dropped from the alerts.
    `password_file`: that of Alertmanager's user, if it asks for a password.
    """
    return yaml.safe_dump(
        {
            "global": {
                "scrape_interval": INTERVAL,
                "evaluation_interval": INTERVAL,
                "external_labels": {"zmon_dashboard": dashboard, "zmon_docs": docs},
            },
            "rule_files": list(rules),
            "scrape_configs": [
                {"job_name": AGENT_JOB, "static_configs": [{"targets": list(agents)}]},
                {"job_name": "zmon-hub", "static_configs": [{"targets": [hub]}]},
            ],
            "alerting": {
                "alert_relabel_configs": [{"action": "labeldrop", "regex": "zmon_.*"}],
                "alertmanagers": [
                    {"static_configs": [{"targets": [alertmanager]}]}
                    | ({"basic_auth": {"username": USER, "password_file": password_file}} if password_file else {})
                ],
            },
        },
        sort_keys=False,
    )


def alertmanager_web_yaml(password_hash: str) -> str:
    """Return the file of Alertmanager's `--web.config.file`: every request needs the password of the only user."""
    return yaml.safe_dump({"basic_auth_users": {USER: password_hash}})


def allowed_origins(dashboard: str) -> str:
    """Return the regular expression of the web pages that may ask Prometheus: those of the dashboard."""
    return re.escape(dashboard) + "|" + re.escape(dashboard.replace("127.0.0.1", "localhost"))


def alertmanager_yaml(webhook: str | None, warnings: str | None = None) -> str:
    """Return alertmanager.yml: critical alerts go to the receiver `pager`, warnings to `desk`.

    Both receivers post to `webhook`, or nowhere if it is None; `warnings` is another URL for warnings. A notification
    has alerts of one job and one severity: its `receiver`, and `severity` in its `groupLabels`, show which.
    """
    webhooks = {"pager": webhook, "desk": warnings or webhook, "nobody": None}
    return yaml.safe_dump(
        {
            "route": {
                "receiver": "pager",
                "group_by": ["job_id", "severity"],  # a warning must not delay a critical alert by group_interval
                "group_wait": "200ms",  # the alerts of one evaluation arrive within this time
                "group_interval": "5s",
                "repeat_interval": "4h",
                "routes": [
                    {"receiver": "nobody", "matchers": ['alertname="ZmonWatchdog"']},
                    {"receiver": "desk", "matchers": ['severity="warning"']},
                ],
            },
            "inhibit_rules": [*INHIBIT_RULES],
            "receivers": [
                {"name": name} | ({"webhook_configs": [{"url": url, "send_resolved": True}]} if url else {})
                for name, url in webhooks.items()
            ],
        },
        sort_keys=False,
    )
