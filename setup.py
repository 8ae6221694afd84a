"""The build steps that pyproject.toml cannot express: the optional C modules of the probe, and a copy of docs/.

There are two C modules: the C edge, and the module that records who sent a signal. For Python 3.12 and newer both use
the stable ABI, so one wheel (cp312-abi3) serves all of them. The stable ABI of 3.11 has no vectorcall, so 3.11 gets a
wheel of its own. Without a compiler the package is built all the same: ranks run the Python edge, and the senders are
unknown. `ZMON_PURE=1` builds the wheel without C.

The package for jobs (deploy/probe/) is built with this file too; it has no dashboards and no pages.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError

STABLE_ABI = sys.version_info >= (3, 12)
# Python prescribes the signatures of callbacks, and not every callback needs all parameters.
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-cast-function-type", "-Wno-unused-parameter"]
EDGE = Extension(
    "zmon.probe.edge.native",
    ["zmon/probe/edge/edge.c"],
    depends=[str(header) for header in sorted(Path("zmon/probe/edge").glob("*.h"))],
    define_macros=[("Py_LIMITED_API", "0x030C0000")] if STABLE_ABI else [],
    extra_compile_args=WARNINGS,
    py_limited_api=STABLE_ABI,
    optional=True,
)
SIGNAL_SENDER = Extension(
    "zmon.probe._signal_sender",
    ["zmon/probe/signal_sender.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    extra_compile_args=WARNINGS,
    py_limited_api=True,
    optional=True,
)


class BuildIfPossible(build_ext):
    """The build of the C modules. A module that cannot be built is reported in one line, and is left out."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (CCompilerError, BaseError) as error:
            print(
                f"zmon: the package works without its C module {ext.name}, which was not built: {error}",
                file=sys.stderr,
            )


class BuildWithPages(build_py):
    """The build with the pages of docs/ inside the package `dashboards`; an editable build reads those of the checkout.

    Runbooks, alerts and messages refer to them.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode and "dashboards" in self.packages:
            for page in sorted(Path("docs").rglob("*.md")):
                target = Path(self.build_lib, "dashboards", page)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(page), str(target))


class WheelOfStableAbi(bdist_wheel):
    """The wheel with the tag of the stable ABI, where both C modules use it."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return ("cp312", "abi3", platform) if STABLE_ABI and python.startswith("cp") else (python, abi, platform)


setup(
    cmdclass={"build_py": BuildWithPages, "build_ext": BuildIfPossible, "bdist_wheel": WheelOfStableAbi},
    ext_modules=[] if os.environ.get("ZMON_PURE") == "1" else [EDGE, SIGNAL_SENDER],
)
