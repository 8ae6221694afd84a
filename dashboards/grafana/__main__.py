"""Make the Grafana dashboards for other scrape intervals.

python -m dashboards.grafana --agents 30s --hub 30s --out DIR
"""

from dashboards.generator import run
from dashboards.grafana import rendered

if __name__ == "__main__":
    run("python -m dashboards.grafana", "Write the dashboards for Grafana for these scrape intervals.", rendered)
