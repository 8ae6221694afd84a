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


def alertmanager_yaml(webhook: str | None, warnings: str | None = None) -> str:
    """alertmanager.yml: a page is what the receiver `pager` gets, one a job and fault; warnings go to `desk`.

    Both post to `webhook`, or to nobody where none is given; `warnings` has those go elsewhere. Never is a page and a
    warning in one notification: its `receiver`, and `severity` among its `groupLabels`, say which it is.
    """
    urls = {"pager": webhook, "desk": warnings or webhook, "nobody": None}
    return yaml.safe_dump(
        {
            "route": {
                "receiver": "pager",
                "group_by": ["job_id", "severity"],  # so that a warning before a page delays it by no group_interval
                "group_wait": "200ms",  # what one evaluation finds comes within that
                "group_interval": "5s",
                "repeat_interval": "4h",
                "routes": [
                    {"receiver": "nobody", "matchers": ['alertname="ZmonWatchdog"']},
                    {"receiver": "desk", "matchers": ['severity="warning"']},
                ],
            },
            "inhibit_rules": [
                {  # the finding names the culprit; the backstop only repeats that the job does not move
                    "source_matchers": ['alertname="ZmonStall"'],
                    "target_matchers": ['alertname="ZmonLeaseOverdue"'],
                    "equal": ["job_id"],
                },
                {  # nobody answers at all: one page, not one for each
                    "source_matchers": ['alertname="ZmonAgentsAbsent"'],
                    "target_matchers": ['alertname=~"ZmonAgentDown|ZmonHubDown"'],
                },
            ],
            "receivers": [
                {"name": name} | ({"webhook_configs": [{"url": url, "send_resolved": True}]} if url else {})
                for name, url in urls.items()
            ],
        },
        sort_keys=False,
    )
