"""A program that answers like nvidia-smi, from a table that a test can change. Its texts have nvidia-smi's form."""

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
    """The program, and the answers to its queries: for each, rows of texts by property."""

    def __init__(self, folder, **tables):
        self._table = folder / "smi.json"
        program = folder / "nvidia-smi"
        self.answer(**tables)
        program.write_text(_PROGRAM.format(python=sys.executable, table=str(self._table)))
        program.chmod(0o755)
        self.command = str(program)

    def answer(self, **tables):
        """Set the rows of every query; `_` stands for `-` in its name."""
        self._table.write_text(json.dumps({name.replace("_", "-"): rows for name, rows in tables.items()}))
