"""Add and end processes in a fake /proc, with the files by which zmon recognizes a reused pid."""

import shutil

from zmon.process import ProcessId

UID = 1000


def add_process(proc, pid, start_ticks=5000, parent=1, **files):
    """Add a process, or replace the one with this pid, and return it. `files` are further files, by name."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = f"S {parent} 7 7 0 -1 4 1 0 2 0 300 40 0 0 20 0 9 0 {start_ticks} 9 90" + " 0" * 28
    files = {
        "stat": f"{pid} (python) {fields}\n",
        "status": f"Name:\tpython\nUid:\t{UID}\t{UID}\t{UID}\t{UID}\n",
        **files,
    }
    for name, content in files.items():
        (folder / name).write_text(content)
    return ProcessId(pid, start_ticks, UID)


def end_process(proc, pid):
    """Remove a process. A reader that has its folder open keeps an empty folder, as in the kernel's /proc."""
    (proc / str(pid)).rename(proc / f"ended-{pid}")
    shutil.rmtree(proc / f"ended-{pid}")
