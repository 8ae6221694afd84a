"""The dashboard: pages that show what Prometheus and the hub know. It shows findings and never judges itself.

`app` is the entry. `views/` has the pages, `panels/` the charts with their PromQL, `grafana/` the same charts for
Grafana, and `rules/` the alert and recording rules.

- The reader's selection: `address` reads and writes the URL, which holds the whole selection.
- Requests: `queries` and `http_requests` send them and share each answer among all viewers; `http_options` has the
  credentials, and `prometheus_answers` the types of answers.
- State: `glance` reads the current state of a job, `side` one side of a comparison, `armed` the results of doctor, and
  `gpu_time` sums the GPU time of all jobs. `severity` orders findings and alerts.
- Charts: `charts`, `curves` and `heat` draw, `history` puts series on one time grid, `alike` draws equal lines as one,
  `marks` marks findings, and `colours` has all colours.
- Texts: `formats` writes numbers and times, `markup` HTML and Markdown.
- Generated files: `intervals` derives windows from scrape intervals, and `generator` writes rules and Grafana
  dashboards for them.
"""
