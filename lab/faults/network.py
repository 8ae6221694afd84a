"""Strike a host: cut its data link, cut all its links, slow its data link down, or set its clock wrong.

Or strike a pair of hosts: cut or slow down only the path between them.
"""

from __future__ import annotations

import time

from lab.drills.drill import Injection, Scene
from lab.faults.sabotage import wait_until
from lab.libraries import INSTALL, no_compiler
from lab.stage.hosts import FourHosts
from lab.stage.network import LINK_BYTES_PER_SECOND, Host, why_not
from zmon.errors import ZmonError

SLOWER = 0.1  # factor on the bandwidth of the link
PAIR_SLOWER = 0.05  # factor on the bandwidth between two hosts; their links carry the traffic of other pairs too
CLOCK_SECONDS = 30.0  # the clock is wrong by this much
OFF_SECONDS = 15.0  # the clock stays wrong this long
TOLERANCE_SECONDS = 5.0  # for the time that the agent reports, because the two clocks are read one after the other

unavailable = why_not


def no_clocks() -> str | None:
    """Return the reason why hosts with their own clocks cannot be made on this machine, or None if they can be."""
    return why_not() or no_compiler()


def link_down(scene: Scene) -> Injection:
    """Cut the data link of the host."""
    host = _host(scene)
    onset = time.time()
    host.cut()
    return Injection(onset, host.reconnect)


def host_lost(scene: Scene) -> Injection:
    """Cut the data link and the management link of the host."""
    host = _host(scene)
    onset = time.time()
    host.isolate()
    return Injection(onset, host.rejoin)


def link_slow(scene: Scene) -> Injection:
    """Slow the data link of the host down to a tenth, both ways."""
    host = _host(scene)
    onset = time.time()
    host.set_bandwidth(SLOWER * LINK_BYTES_PER_SECOND)
    return Injection(onset, lambda: host.set_bandwidth(LINK_BYTES_PER_SECOND))


def pair_cut(scene: Scene) -> Injection:
    """Lose all packets between the host and one other host of the job, each way or only one way."""
    host, peer = _pair(scene)
    there, back = (host, peer), (peer, host)
    ways = scene.random.choice(((there, back), (there,), (back,)))
    onset = time.time()
    for sender, receiver in ways:
        sender.lose_packets_to(receiver)

    def lift() -> None:
        for sender, receiver in ways:
            sender.pass_packets_to(receiver)

    return Injection(onset, lift, peer=peer.name)


def pair_slow(scene: Scene) -> Injection:
    """Slow the path between the host and one other host of the job down to a twentieth, both ways."""
    host, peer = _pair(scene)
    onset = time.time()
    for sender, receiver in ((host, peer), (peer, host)):
        sender.set_bandwidth_to(receiver, PAIR_SLOWER * LINK_BYTES_PER_SECOND)

    def lift() -> None:
        host.set_bandwidth(LINK_BYTES_PER_SECOND)
        peer.set_bandwidth(LINK_BYTES_PER_SECOND)

    return Injection(onset, lift, peer=peer.name)


def clock_off(scene: Scene) -> Injection:
    """Set the clock of the host's agent and ranks wrong for a while, then right again."""
    stage = _stage(scene)
    seconds = scene.random.choice((-1, 1)) * CLOCK_SECONDS
    clock = stage.clocks.get(scene.host)
    if clock is None:
        raise ZmonError(f"the clock of {scene.host} cannot be set", "its library could not be compiled", INSTALL)

    def is_off() -> bool:
        host_time = stage.time_on(scene.host)
        return host_time is not None and abs(host_time - time.time() - seconds) < TOLERANCE_SECONDS

    onset = time.time()
    try:
        clock.set(seconds)
        if not wait_until(is_off, OFF_SECONDS):
            raise ZmonError(
                f"the clock of {scene.host} was not set",
                "its agent reports the same time as before, or does not answer",
            )
        time.sleep(OFF_SECONDS)
    finally:
        clock.set(0.0)
    return Injection(onset)


def _host(scene: Scene) -> Host:
    """Return the host to strike. Raises ZmonError if the stage has no such host."""
    host = _stage(scene).hosts.get(scene.host)
    if host is None:
        raise ZmonError(f"cannot strike {scene.host}", "the stage has no such host", f"see {scene.job.folder}/log")
    return host


def _pair(scene: Scene) -> tuple[Host, Host]:
    """Return the host to strike, and a random other host of the job."""
    host = _host(scene)
    hosts = _stage(scene).hosts
    names = {state.host for state in scene.stage.ranks(scene.job.spec.job_id).values()} & hosts.keys()
    return host, hosts[scene.random.choice(sorted(names - {host.name}))]


def _stage(scene: Scene) -> FourHosts:
    if not isinstance(scene.stage, FourHosts):
        raise ZmonError("this drill needs several hosts", "the stage has one host", "play it on the stage `hosts`")
    return scene.stage
