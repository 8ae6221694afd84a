"""The build steps that pyproject.toml cannot express: runbooks for the dashboard, and the probe's C module.

A wheel contains docs/runbooks.md. The C module is optional: without a compiler the probe works, and does not know who
sent a signal. It uses the limited API, so that one build serves Python 3.11 and newer.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


class BuildWithRunbooks(build_py):
    """The build with a copy of the runbooks; an editable build needs none, since it reads them from the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "dashboards", "docs")
            folder.mkdir(parents=True, exist_ok=True)
            self.copy_file("docs/runbooks.md", str(folder))


SIGNAL_SENDER = Extension(
    "zmon.probe._signal_sender",
    ["zmon/probe/signal_sender.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)

setup(
    cmdclass={"build_py": BuildWithRunbooks},
    ext_modules=[SIGNAL_SENDER],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
