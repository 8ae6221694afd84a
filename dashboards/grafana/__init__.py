"""The pages in Grafana, for people who live there: the same questions, units and PromQL, a dashboard for each page.

What is made here is Grafana's JSON as dicts, the same each time; `make generate` writes it beside this file. Names of
options are those of @grafana/schema 10.4 and 11.6. Nothing here decides: findings are marked as the hub tells them.
"""

from dashboards.grafana.page import dashboards

__all__ = ["dashboards"]
