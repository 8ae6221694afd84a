"""The build step that pyproject.toml cannot express: a wheel contains docs/runbooks.md for the dashboard."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRunbooks(build_py):
    """The build with a copy of the runbooks; an editable build needs none, since it reads them from the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "dashboards", "docs")
            folder.mkdir(parents=True, exist_ok=True)
            self.copy_file("docs/runbooks.md", str(folder))


setup(cmdclass={"build_py": BuildWithRunbooks})
