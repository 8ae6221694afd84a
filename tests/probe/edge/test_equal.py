"""Both edges of the probe do the same: scripts of random events leave the same bytes in the box."""

import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.places import REPOSITORY
from tests.probe.edge import building
from tests.probe.edge.replay import difference, script
from zmon.probe import edge

pytestmark = pytest.mark.skipif(edge.C is None, reason="the package was built without a compiler")


@settings(max_examples=60, deadline=None)
@given(random=st.randoms(use_true_random=False), length=st.integers(1, 60), with_interface=st.booleans())
def test_both_edges_write_the_same_bytes(random, length, with_interface):
    assert difference(script(random, length), with_interface) == ""


def test_both_edges_write_the_same_bytes_in_thousands_of_steps():
    """The ring wraps around: it holds 4,096 boundaries."""
    step = [
        ("begin_step", None),
        ("phase", 3),
        ("pass_time", 1000),
        ("enter_op", 0, 0, 10, 20),
        ("leave_op", None, False),
    ]
    assert difference([*step, ("work", 32, 7), ("end_step",)] * 4200 + script(Random(1), 200)) == ""


@pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")
def test_both_edges_store_the_live_words_in_the_same_order(tmp_path):
    """A reader may read between any two stores."""
    replay(building.build(tmp_path, "-O2", "-DZMON_RECORD_STORES"), 0, 3, 200)


@pytest.mark.slow
@pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")
def test_sanitizers_find_nothing(tmp_path):
    """Addresses and undefined behaviour; Python's own memory would look like leaks."""
    module = building.build(tmp_path, *building.SANITIZERS)
    preloaded = f"{building.runtime('libasan.so')} {building.runtime('libubsan.so')}"
    replay(module, 100, 120, 300, LD_PRELOAD=preloaded, ASAN_OPTIONS="detect_leaks=0", PYTHONMALLOC="malloc")


def replay(module, first, last, length, **env):
    """Replay scripts in a process that uses this build of the C edge."""
    command = [sys.executable, "-m", "tests.probe.edge.replay", *map(str, (first, last, length, module))]
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{last - first} scripts" in done.stdout
