"""The programs behind the targets of the Makefile: checks, generators, and what installs, builds, draws and tests.

`make check` runs `words` and `imports`. `make generate` runs `generate`, which calls `*_page`, `settings_pages`,
`openapi` and `alertmanager`. Each other module is named after its target, or says in its docstring who uses it.
"""
