"""Dashboards for Grafana: one for each page, with the same questions, units and PromQL.

This package returns Grafana's JSON as dicts; `make generate` writes it beside this file. The output depends only on the
code. The names of options are from @grafana/schema 10.4 and 11.6. Findings are shown as the hub reports them.
"""

from dashboards.grafana.page import dashboards

__all__ = ["dashboards"]
