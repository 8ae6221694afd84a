"""The `zmon` command: `main` has the group, one module per subcommand, and `render/` makes the terminal output."""

import zmon

if not hasattr(zmon, "attach"):  # pip let another program replace zmon/__init__.py, or take it along when it left
    from zmon.doctor.installation import installed_distributions, package

    _CHECK = package(installed_distributions(), is_intact=False)
    raise SystemExit(f"zmon: {_CHECK.result}. {_CHECK.next_step}")
