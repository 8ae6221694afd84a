"""One host is cut off: its cable is pulled, or it is lost altogether. Or its link is slow, or its clock is off."""

from __future__ import annotations

import time

from zmon.drills.compiled import INSTALL, no_compiler
from zmon.drills.drill import Scene, Strike
from zmon.drills.faults.sabotage import wait_until
from zmon.drills.hosts import FourHosts
from zmon.drills.network import LINK_BYTES_PER_SECOND, Host, why_not
from zmon.errors import ZmonError

SLOWER = 0.1  # of what the link carried before
CLOCK_SECONDS = 30.0  # by which a clock is off
OFF_SECONDS = 15.0  # for so long
NEAR_SECONDS = 5.0  # to that, as its agent answers: two clocks are read one after the other


def unavailable() -> str | None:
    """Why there are no hosts to play with; None: there are."""
    return why_not()


def no_clocks() -> str | None:
    """The same for hosts whose clock can be set."""
    return why_not() or no_compiler()


def link_down(scene: Scene) -> Strike:
    """Pull the plug of the data network."""
    host = _host(scene)
    onset = time.time()
    host.cut()
    return Strike(onset, host.join)


def host_lost(scene: Scene) -> Strike:
    """Pull both plugs."""
    host = _host(scene)
    onset = time.time()
    host.lose()
    return Strike(onset, host.find)


def link_slow(scene: Scene) -> Strike:
    """The data network carries a tenth, to and from the host."""
    host = _host(scene)
    onset = time.time()
    host.carry(SLOWER * LINK_BYTES_PER_SECOND)
    return Strike(onset, lambda: host.carry(LINK_BYTES_PER_SECOND))


def clock_off(scene: Scene) -> Strike:
    """The host's clock is set, that of its agent and of its ranks, and after a while set right again."""
    stage, seconds = _stage(scene), scene.random.choice((-1, 1)) * CLOCK_SECONDS
    clock = stage.clocks.get(scene.host)
    if clock is None:
        raise ZmonError(f"the clock of {scene.host} cannot be set", "its library could not be built", INSTALL)

    def off() -> bool:
        there = stage.time_on(scene.host)
        return there is not None and abs(there - time.time() - seconds) < NEAR_SECONDS

    onset = time.time()
    try:
        clock.set(seconds)
        if not wait_until(off, OFF_SECONDS):
            raise ZmonError(f"the clock of {scene.host} is not off", "its agent tells the time as before, or none")
        time.sleep(OFF_SECONDS)
    finally:
        clock.set(0.0)
    return Strike(onset)


def _host(scene: Scene) -> Host:
    """The one to strike."""
    host = _stage(scene).hosts.get(scene.host)
    if host is None:
        raise ZmonError(f"{scene.host} cannot be struck", "it is no host of this stage", f"see {scene.job.folder}/log")
    return host


def _stage(scene: Scene) -> FourHosts:
    if not isinstance(scene.stage, FourHosts):
        raise ZmonError("this drill needs several hosts", "it is played on one", "play it on the stage `hosts`")
    return scene.stage
