"""Fork a process for each script of a rank, so that a test does not pay for importing torch each time.

Requests and answers are lines of JSON on stdin and stdout:

    {"run": script, "env": {…}, "log": file}  →  {"pid": n}        optional: "arguments": […], "errors": file for stderr
    {"wait": pid}                             →  {"status": n}     the status of os.waitpid

A fork is a normal process: its exceptions go through `sys.excepthook`, its end through `atexit`. Modules imported
before the fork are frozen (gc.freeze): a fork with torch in it then ends in 0.3 s instead of 0.8 to 1.4 s.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def serve() -> list[str]:
    """Answer requests until stdin is closed, then exit; in a fork, return the script and its arguments."""
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"status": os.waitpid(request["wait"], 0)[1]}
        else:
            pid = os.fork()
            if pid == 0:
                os.setpgrp()
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no fork outlives the tests
                os.environ.update(request["env"])
                log = request["log"]
                for descriptor, file in enumerate((os.devnull, log, request.get("errors", log))):
                    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if descriptor else os.O_RDONLY
                    os.dup2(os.open(file, flags), descriptor)
                sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
                return [request["run"], *request.get("arguments", ())]
            answer = {"pid": pid}
        print(json.dumps(answer), flush=True)
    sys.exit()


if __name__ == "__main__":
    for module in sys.argv[1:]:  # modules that take long to import
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # else each fork walks through all of torch once more when it ends
    sys.argv = serve()
    runpy.run_path(sys.argv[0], run_name="__main__")
