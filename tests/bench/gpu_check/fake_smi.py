"""A program that answers like nvidia-smi, from tables that a test gives it."""

import json
import sys

_PROGRAM = """#!{python} -S
import json, sys
tables = json.load(open({table!r}))
what, _, names = next(word for word in sys.argv if word.startswith("--query-"))[len("--query-"):].partition("=")
for name in names.split(","):
    if tables[what] and name not in tables[what][0]:
        print(f'Field "{{name}}" is not a valid field to query.\\n')
        sys.exit(2)
for row in tables[what]:
    print(", ".join(row[name] for name in names.split(",")))
"""


class FakeSmi:
    """The program and its command. A row of an answer has texts by property."""

    def __init__(self, folder, **tables):
        """`tables` has the rows of every query; `_` stands for `-` in its name."""
        table = folder / "smi.json"
        table.write_text(json.dumps({name.replace("_", "-"): rows for name, rows in tables.items()}))
        program = folder / "nvidia-smi"
        program.write_text(_PROGRAM.format(python=sys.executable, table=str(table)))
        program.chmod(0o755)
        self.command = str(program)
