#!/usr/bin/env python3
"""Write the agents of a Slurm cluster into a file that Prometheus and the hub read (file_sd).

    targets.py FILE [--port 9780] [--scheme https]

Run it every minute, for example by cron, where scontrol works. Nodes that are down or switched off are left out. If
scontrol fails, the file stays as it is, and the exit code is 1.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ABSENT = ("DOWN", "FUTURE", "POWERED_DOWN", "POWERING_DOWN", "UNKNOWN")  # states of nodes (scontrol(1))
SECONDS = 30


def addresses(text: str) -> list[str]:
    """Return the address of each node that is there, from the output of `scontrol show nodes --oneliner`."""
    lines = [line for line in text.splitlines() if line.startswith("NodeName=")]
    nodes = [dict(reversed(re.findall(r"(\w+)=(\S+)", line))) for line in lines]  # a Reason may repeat a name later on
    present = [node for node in nodes if not set(re.findall(r"[A-Z_]+", node.get("State", ""))) & set(ABSENT)]
    return sorted(node.get("NodeAddr", node["NodeName"]) for node in present)


def main() -> None:
    """Write the file, by an atomic rename."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=9780)
    parser.add_argument("--scheme", choices=("http", "https"), default="http")
    arguments = parser.parse_args()
    command = ["scontrol", "show", "nodes", "--oneliner"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        answer = getattr(error, "stderr", None) or str(error)
        reason = " ".join((answer.decode(errors="replace") if isinstance(answer, bytes) else answer).split())
        sys.exit(f"targets.py: scontrol failed, {arguments.file} stays as it is: {reason}")
    targets = [f"{address}:{arguments.port}" for address in addresses(done.stdout)]
    new = arguments.file.with_name(arguments.file.name + ".new")
    new.write_text(json.dumps([{"targets": targets, "labels": {"__scheme__": arguments.scheme}}]) + "\n")
    os.replace(new, arguments.file)  # noqa: PTH105


if __name__ == "__main__":
    main()
