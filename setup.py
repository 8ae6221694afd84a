"""What pyproject.toml cannot say: a wheel has docs/runbooks.md beside the dashboard that shows it."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRunbooks(build_py):
    """From a checkout it is read where it lies; an editable build has nothing to copy."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "dashboards", "docs")
            folder.mkdir(parents=True, exist_ok=True)
            self.copy_file("docs/runbooks.md", str(folder))


setup(cmdclass={"build_py": BuildWithRunbooks})
