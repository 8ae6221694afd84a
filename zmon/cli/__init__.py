"""The `zmon` command: the group in `main`, a module for each subcommand, and their terminal output in `render/`."""

import zmon

if not hasattr(zmon, "attach"):  # another distribution has replaced zmon/__init__.py, or deleted it when it was removed
    from zmon.doctor.installation import installed_distributions, package

    _CHECK = package(installed_distributions(), is_intact=False)
    raise SystemExit(f"zmon: {_CHECK.result}. {_CHECK.next_step}")
