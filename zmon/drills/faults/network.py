"""One host is cut off: its cable is pulled, or it is lost altogether. Or its link is slow, or its clock is off."""

from __future__ import annotations

import shutil
import time

from zmon.drills.drill import Scene, Strike
from zmon.drills.hosts import FourHosts
from zmon.drills.network import LINK_BYTES_PER_SECOND, why_not
from zmon.errors import ZmonError

SLOWER = 0.1  # of what the link carried before
CLOCK_SECONDS = 30.0  # by which a clock is off
OFF_SECONDS = 15.0  # for so long


def unavailable() -> str | None:
    """Why there are no hosts to play with; None: there are."""
    return why_not()


def no_clocks() -> str | None:
    """The same for hosts whose clock can be set."""
    return why_not() or (None if shutil.which("cc") else "there is no C compiler: apt-get install gcc libc6-dev")


def link_down(scene: Scene) -> Strike:
    """Pull the plug of the data network."""
    host = _stage(scene).hosts[scene.host]
    onset = time.time()
    host.cut()
    return Strike(onset, host.join)


def host_lost(scene: Scene) -> Strike:
    """Pull both plugs."""
    host = _stage(scene).hosts[scene.host]
    onset = time.time()
    host.lose()
    return Strike(onset, host.find)


def link_slow(scene: Scene) -> Strike:
    """The data network carries a tenth, to and from the host."""
    host = _stage(scene).hosts[scene.host]
    onset = time.time()
    host.carry(SLOWER * LINK_BYTES_PER_SECOND)
    return Strike(onset, lambda: host.carry(LINK_BYTES_PER_SECOND))


def clock_off(scene: Scene) -> Strike:
    """The host's clock is set, that of its agent and of its ranks, and after a while set right again."""
    clock = _stage(scene).clocks[scene.host]
    onset = time.time()
    clock.set(scene.random.choice((-1, 1)) * CLOCK_SECONDS)
    time.sleep(OFF_SECONDS)
    clock.set(0.0)
    return Strike(onset)


def _stage(scene: Scene) -> FourHosts:
    if not isinstance(scene.stage, FourHosts):
        raise ZmonError("this drill needs several hosts", "it is played on one", "play it on the stage `hosts`")
    return scene.stage
