"""The configuration of Prometheus and Alertmanager, from where the parts listen. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

INTERVAL = "2s"  # one machine, a handful of series: a finding becomes a page within seconds


def prometheus_yaml(
    agents: Sequence[str], hub: str, alertmanager: str, rules: Sequence[str], dashboard: str, docs: str
) -> str:
    """prometheus.yml: scrape agents and hub (host:port each), load the rules, send alerts on.

    The external labels are where links in alerts point to; they are dropped from the alerts themselves.
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
                {"job_name": "zmon-agent", "static_configs": [{"targets": list(agents)}]},
                {"job_name": "zmon-hub", "static_configs": [{"targets": [hub]}]},
            ],
            "alerting": {
                "alert_relabel_configs": [{"action": "labeldrop", "regex": "zmon_.*"}],
                "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}],
            },
        },
        sort_keys=False,
    )


def alertmanager_yaml(webhook: str | None) -> str:
    """alertmanager.yml: one page a job and fault, to a webhook, or to nobody where none is given."""
    receiver: dict[str, object] = {"name": "pager"}
    if webhook is not None:
        receiver["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    return yaml.safe_dump(
        {
            "route": {
                "receiver": "pager",
                "group_by": ["job_id"],
                "group_wait": "1s",
                "group_interval": "5s",
                "repeat_interval": "4h",
                "routes": [{"receiver": "nobody", "matchers": ['alertname="ZmonWatchdog"']}],
            },
            "inhibit_rules": [
                {  # the finding names the culprit; the others only repeat that the job is not well
                    "source_matchers": ['alertname="ZmonStall"'],
                    "target_matchers": ['alertname=~"ZmonLeaseOverdue|ZmonFindingWarning"'],
                    "equal": ["job_id"],
                },
                {  # nobody answers at all: one page, not one for each
                    "source_matchers": ['alertname="ZmonAgentsAbsent"'],
                    "target_matchers": ['alertname=~"ZmonAgentDown|ZmonHubDown"'],
                },
            ],
            "receivers": [receiver, {"name": "nobody"}],
        },
        sort_keys=False,
    )
