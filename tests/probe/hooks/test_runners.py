"""Tests of the hooks into frameworks that run the job's function and catch its exceptions.

Ray is not installed here: stand-ins have the names and the calls of its two ways to run a function. The pools are
Python's. The tables of scripts have the form that `tests/probe/hooks/scripts.py` describes.
"""

import pytest

from tests.probe.hooks.scripts import JOIN, cases

START = """
import traceback, types
from zmon.box.reader import BoxReader
from zmon.probe.hooks import runners

def words():
    last = BoxReader(timeline.box.path).words()
    return (last.kind, last.type, last.where.partition(":")[0]) if last else None

# The thread runner of Ray Train, version 2: it prints the frames that Ray shows to the user.
class ThreadRunner:
    def run(self, target):
        def work():
            try:
                target()
            except BaseException as error:
                print(newer.construct_user_exception_with_traceback(error, exclude_frames=1))
        in_thread(work)

def construct(error, exclude_frames=0):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)][exclude_frames:]

newer = types.SimpleNamespace(ThreadRunner=ThreadRunner, construct_user_exception_with_traceback=construct)

# The thread of Ray Train until Ray 2.50.
class RunnerThread(threading.Thread):
    def run(self):
        try:
            self._target()
        except BaseException as error:
            self._propagate_exception(error)
    def _propagate_exception(self, error):
        print("passed on", error)

class StartTraceback(Exception):
    pass

older = types.SimpleNamespace(RunnerThread=RunnerThread, StartTraceback=StartTraceback)
for _ in range(2):  # a module that is imported again must not be wrapped twice
    runners._watch_ray(newer)
    runners._watch_older_ray(older)

def fails():
    train()
    raise ValueError("disk full")

def run_older(work):
    thread = older.RunnerThread(target=work)
    thread.start()
    thread.join()
"""

ENDS = """
== function that returns to Ray has finished, and is in training again if it goes on
newer.ThreadRunner().run(train)
print(words(), activity(), steps())  # > ('exit', 'ray.train', '') done 1
train()
print(activity(), steps())  # > train 2

== exception that Ray catches is the last words, and its frames are those of the job
newer.ThreadRunner().run(fails)
print(words(), activity(), steps())
> ['fails']
> ('exception', 'builtins.ValueError', 'fails() at script-0.py') train 1

== function that returns to an older Ray has finished
run_older(train)
print(words(), activity(), steps())  # > ('exit', 'ray.train', '') done 1

== exception that an older Ray catches is the last words, without the one around it
def fails_in_ray():
    try:
        fails()
    except ValueError as error:
        raise StartTraceback("of Ray") from error
run_older(fails_in_ray)
print(words(), activity())
> passed on of Ray
> ('exception', 'builtins.ValueError', 'fails() at script-0.py') train

== clean exit of the process changes nothing about an exception that was caught
newer.ThreadRunner().run(fails)
import atexit
atexit._run_exitfuncs()
print(words()[0], activity())
> ['fails']
> exception train

== process that joins again has more to do
newer.ThreadRunner().run(fails)
join("again")
print(words(), activity())
> ['fails']
> None train
"""

RESTS = """
== rank rests between the functions that a framework runs, and trains again
# stand-ins for concurrent.futures.process and _pytest.runner
executor = types.SimpleNamespace(_sendback_result=print, _ExceptionWithTraceback=print)
tests = types.SimpleNamespace(call_and_report=lambda test: test())
for _ in range(2):
    runners._watch_executor(executor)
    runners._end_training_after(tests, "call_and_report")
executor._sendback_result("result")
print(activity())
> result
> init
train()
print(activity())  # > train
executor._sendback_result("result")
print(activity(), steps())
> result
> done 1
train()
print(activity())  # > train
tests.call_and_report(train)
print(activity(), steps(), words())  # > done 3 None

== rank rests after a cell of a notebook
shell = types.SimpleNamespace(events=types.SimpleNamespace(register=lambda name, call: cells.append((name, call))))
cells = []
runners._end_training_after_cells(types.SimpleNamespace(get_ipython=lambda: None))
runners._end_training_after_cells(types.SimpleNamespace(get_ipython=lambda: shell))
train()
[(name, after)] = cells
after("result of the cell")
print(name, activity())  # > post_run_cell done

== rank rests once it has left its default group, and until it joins again
join("first")
train()
dist.destroy_process_group(dist.new_group([0]))
print(activity())  # > train
dist.destroy_process_group()
print(activity())  # > done
torch.save({}, sys.argv[0] + ".pt")
print(activity())  # > done
join("second")
print(activity())  # > train
dist.destroy_process_group()
print(activity())  # > done
train()
print(activity())  # > train

== rank that joins again initializes while it waits for the others, and after a join that failed
def meet(url, **_):  # instead of the wait for the other ranks
    print("waits:", activity())
    if "fails" in url:
        raise ValueError
    yield dist.HashStore(), 0, 1
dist.register_rendezvous_handler("meet", meet)
dist.init_process_group("gloo", init_method="meet://first", rank=0, world_size=1)
print(activity())
> waits: init
> init
train()
dist.destroy_process_group()
print(activity())  # > done
try:
    dist.init_process_group("gloo", init_method="meet://fails", rank=0, world_size=1)
except ValueError:
    print(activity())
> waits: init
> init
dist.init_process_group("gloo", init_method="meet://second", rank=0, world_size=1)
print(activity())
> waits: init
> train

== script that leaves its group because it fails does not rest, and a worker of a pool does
import multiprocessing
for name in ("SpawnPoolWorker-1", "SpawnPoolWorker-2", "MainProcess"):
    multiprocessing.current_process().name = name
    try:
        try:
            join(name)
            joined = activity()
            train()
            raise ValueError
        finally:
            dist.destroy_process_group()
    except ValueError:
        print(name, "joined:", joined, "left:", activity())
> SpawnPoolWorker-1 joined: init left: done
> SpawnPoolWorker-2 joined: done left: done
> MainProcess joined: train left: train
"""

IN_POOL = """
import concurrent.futures, multiprocessing, os
os.environ["ZMON_JOB_ID"] = "job"

def work(rank):
    import zmon
    assert zmon.attach()
    raise ValueError("disk full")

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    try:
        with {pool} as pool:
            list(pool.map(work, [0]))
    except ValueError as error:
        print("caught", error, flush=True)
"""


@pytest.mark.parametrize("case", cases(ENDS, JOIN + START))
def test_end_of_the_function_is_recorded(start_rank, case):
    case.check(start_rank)


@pytest.mark.parametrize("case", cases(RESTS, JOIN + START))
def test_rank_rests_between_its_work(start_rank, case):
    case.check(start_rank)


@pytest.mark.parametrize(
    "pool",
    ["context.Pool(1)", "concurrent.futures.ProcessPoolExecutor(1, mp_context=context)"],
    ids=["Pool", "ProcessPoolExecutor"],
)
@pytest.mark.parametrize(("world_size", "is_recorded"), [(1, False), (2, True)])
def test_exception_that_a_pool_catches_is_recorded_only_in_a_job_of_several_ranks(
    start_rank, pool, world_size, is_recorded
):
    rank = start_rank(IN_POOL.format(pool=pool), 0, world_size)
    assert rank.wait(40) == 0
    assert rank.says("caught") == "disk full"
    words = rank.words()
    assert (words is not None and (words.kind, words.message) == ("exception", "disk full")) is is_recorded
