"""The dashboard: one page per question, from Prometheus and the hub. It shows findings and never judges itself.

`views/` has the pages, `panels/` the charts with their PromQL, `grafana/` the same charts for Grafana, `rules/` the
alert and recording rules. `address` reads and writes the URL, which holds everything that a page shows. `queries` and
`http_requests` send the requests and share each answer among all viewers. `glance` reads the current state of a job,
`side` one side of a comparison, `armed` the results of doctor. `charts`, `curves` and `heat` draw, `history` puts
series on one time grid, `alike` draws equal lines as one, `marks` marks findings on a chart, `colours` has all
colours. `formats` formats numbers and times, `markup` HTML and Markdown. `gpu_time` sums the GPU time of all jobs.
`intervals` derives windows from scrape intervals, and `generator` writes rules and Grafana dashboards for them.
"""
