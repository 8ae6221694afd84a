"""Dashboards for Grafana: one for each page with panels, with the same questions, units and PromQL.

This package returns Grafana's JSON as dicts; `make generate` writes it beside this file, and for the Helm chart into
helm/zmon/files. The output depends only on the code and on the scrape intervals. The names of options are from
@grafana/schema 10.4 and 11.6. Findings are shown as the hub reports them.
"""

from dashboards.grafana.page import dashboards, rendered

__all__ = ["dashboards", "rendered"]
