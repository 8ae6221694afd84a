"""Make the alert and recording rules for other scrape intervals.

python -m dashboards.rules --agents 30s --hub 30s --out DIR [--sharded]
"""

from dashboards.generator import run
from dashboards.rules.render import rendered, sharded

if __name__ == "__main__":
    run(
        "python -m dashboards.rules",
        "Write the alert and recording rules for these scrape intervals.",
        rendered,
        sharded,
    )
