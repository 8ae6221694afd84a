"""Tests of properties that all detectors share.

Healthy jobs have no finding. A culprit follows a renumbering of the ranks, wrong host clocks change nothing, and
missing data names no other culprit.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.build import NOW, disconnected, job_steps, killed, raised, rank_state, snapshot, terminated, waiting
from tests.detectors.network.hosts import ETH1
from tests.detectors.slow.slow_jobs import GIB, GOOD, HOSTS, connected, rank
from tests.detectors.stalls import stopped
from tests.steps import aligned_step
from zmon.detectors import ALL
from zmon.detectors.slow.uneven_steps import JITTER_CAUSES
from zmon.job.baseline import step_window
from zmon.schema.host import GpuSample, HostLoad, HostSample
from zmon.schema.job_snapshot import Snapshot

DRAWS = {0: 1_000, 1: 2_800, 2: 2_800, 3: 2_800}  # by seed; the first is in `make test`


def findings_by_detector(job):
    """Return cause, severity, ranks and hosts of all findings, by detector."""
    return {
        detector.name: sorted((f.cause, f.severity, sorted(f.ranks), sorted(f.hosts)) for f in detector.detect(job))
        for detector in ALL
    }


# -- healthy -----------------------------------------------------------------------------------------------


def noise(draw, shape):
    """Return factors of the self time by rank and step: some depend on the step before, some have a heavy tail."""
    kind = draw.integers(4)
    scale = draw.choice([0.02, 0.05, 0.1])
    if kind == 0:
        wild = draw.standard_t(2, shape).clip(-3, 30)
    elif kind == 1:
        wild = draw.pareto(1.5, shape).clip(0, 30)
    else:
        persistence = draw.choice([0.3, 0.6, 0.8])
        wild = draw.standard_normal(shape) if kind == 2 else draw.standard_t(4, shape) / 1.4
        wild *= (1 - persistence**2) ** 0.5
        for index in range(1, shape[1]):
            wild[:, index] += persistence * wild[:, index - 1]
    return np.maximum(1 + scale * wild, 0.2)


def healthy(draw):
    """Return the steps of a healthy job with noise and pauses, and lookups that differ by 5 × between ranks."""
    size, number = int(draw.choice([2, 4, 8])), int(draw.integers(24, 65))
    step, self_share = draw.choice([0.020, 0.100, 0.250, 2.0]), draw.uniform(0.3, 0.9)  # seconds; share of self time
    lookups = draw.integers(100, 501, (size, number)) if draw.random() < 0.5 else np.full((size, number), 300)
    by_work = draw.uniform(0, 1)  # share of the self time that grows with the lookups
    self_times = step * self_share * (1 - by_work + by_work * lookups / 300) * noise(draw, (size, number))
    self_times *= draw.uniform(0.98, 1.03, (size, 1))  # no two hosts are the same
    for _ in range(draw.integers(3)):  # a rank pauses: garbage collection
        self_times[draw.integers(size), draw.integers(number)] += 10 * step
    data = self_times * draw.uniform(0.0, 0.2)
    exposed = step * (1 - self_share) * noise(draw, (1, number))[0] + self_times.max(0) - self_times
    stands_for = max(1, round(0.2 / step))
    moved = tuple((lookups * 64).T.tolist())
    columns = zip(self_times.T.tolist(), data.T.tolist(), exposed.T.tolist(), lookups.T.tolist(), moved, strict=True)
    return tuple(
        aligned_step(
            step=1 + index * stands_for,
            stands_for=stands_for,
            seconds=max(busy) + min(waits),
            critical_rank=waits.index(min(waits)),
            self_seconds=tuple(busy),
            phases={"data": tuple(loads), "forward": tuple(a - b for a, b in zip(busy, loads, strict=True))},
            exposed={"all_to_all": tuple(waits)},
            sent_bytes={"all_to_all": tuple(num_bytes)},
            received_bytes={"all_to_all": tuple(num_bytes)},
            samples=(32,) * size,
            lookups=tuple(work),
        )
        for index, (busy, loads, waits, work, num_bytes) in enumerate(columns)
    )


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow if seed else ()) for seed in DRAWS])
def test_healthy_jobs_have_no_finding_in_thousands_of_draws(seed):
    draw = np.random.default_rng(seed)
    jobs = {n: snapshot(*(rank_state(r, world_size=n) for r in range(n))) for n in (2, 4, 8)}
    for _ in range(DRAWS[seed]):
        steps = healthy(draw)
        good = step_window(steps)
        job = replace(jobs[len(steps[0].self_seconds)], steps=steps, baseline=good, step_windows=(good,) * 8)
        summaries = [f.summary for detector in ALL for f in detector.detect(job) if not is_true_loss(f, steps)]
        assert not summaries, summaries


def is_true_loss(finding, steps):
    """Return True if the finding names nobody and says that uneven ranks cost 10 % of the time, and they do."""
    self_times = np.array([step.self_seconds for step in steps])
    lost = (self_times.max(1) - self_times.mean(1)).sum() / sum(step.seconds for step in steps)
    names_nobody = not finding.ranks and not finding.hosts
    return finding.cause in JITTER_CAUSES and names_nobody and lost >= 0.1


# -- faulty ------------------------------------------------------------------------------------------------


def hardware(hot=None, slow=None, pressed=None):
    """Return four hosts, each with a GPU, an interface and connections to all others."""
    nics = (replace(ETH1, pci="0000:04:00.0"),)
    for index, window in enumerate(connected(slow)):
        gpus = (GpuSample(str(index), f"GPU-{index}", throttled={"hw_thermal": window.host == hot}),)
        waits = (0, 20 * (window.host == pressed))
        then, now = (HostLoad({}, 8 * GIB, 16 * GIB, 0, pressure_seconds={"cpu": seconds}) for seconds in waits)
        before = HostSample(nics=nics, gpus=gpus, tcp=window.recent, load=then)
        devices = frozenset(("eth1", f"GPU-{index}"))
        now = HostSample(nics=nics, gpus=gpus, tcp=window.now.tcp, load=now)
        yield replace(window, before=before, now=now, worked=devices)


def job(*specs, ranks=None, hot=None, slow=None, pressed=None):
    """Return a job with one rank per host; `specs` are the ranks in the last twenty steps."""
    states = [rank_state(index, host=name, device=f"GPU-{index}") for index, name in enumerate(HOSTS)]
    well, now = (rank(),) * 4, specs or (rank(),) * 4
    steps = (*job_steps(44, *well, stands_for=2), *job_steps(20, *now, first=101, stands_for=2))
    base = snapshot(*(ranks or states), hardware=hardware(hot, slow, pressed))
    return replace(base, steps=steps, baseline=GOOD, step_windows=(GOOD,) * 8)


def placed(*ranks):
    """Return a job of these ranks, each on the host with the same number."""
    return job(ranks=[replace(state, host=HOSTS[state.rank]) for state in ranks])


SLOW = [rank(forward=0.100 if index == 1 else 0.060) for index in range(4)]
FAULTS = {  # the job, and the causes of its findings
    "slow rank": (job(*SLOW), {"compute_straggler"}),
    "slow rank, hot": (job(*SLOW, hot="node-b"), {"thermal_throttle"}),
    "slow rank, starved": (job(*SLOW, pressed="node-b"), {"host_pressure"}),
    "slow host": (job(*[rank(exchange=0.120)] * 4, slow="node-c"), {"network_slow"}),
    "hot": (job(hot="node-d"), {"thermal_throttle"}),
    "killed": (placed(waiting(0), waiting(1), killed(2), waiting(3)), {"rank_exited"}),
    "killed, and the others lose it": (
        placed(disconnected(0, 1.1), disconnected(1, 1.05), killed(2, 1.0), disconnected(3, 1.02)), {"rank_exited"}),
    "raised": (placed(raised(0), waiting(1), waiting(2), waiting(3)), {"rank_exited"}),
    "raised, and the others are ended": (
        placed(terminated(0), raised(1, 1.25), terminated(2), disconnected(3, 1.1)), {"rank_exited"}),
    "stopped": (placed(waiting(0), waiting(1), stopped(2), waiting(3)), {"rank_frozen"}),
    "blocked": (
        placed(waiting(0, process_state="D", blocked_seconds=3.0), *map(waiting, (1, 2, 3))), {"rank_frozen"}),
    "hangs": (placed(waiting(0), waiting(1), waiting(2), rank_state(3, overdue_seconds=4.0)), {"compute_hang"}),
    "cancelled": (placed(terminated(0), terminated(1), disconnected(2), terminated(3)), set()),
    "well": (job(), set()),
}  # fmt: skip
JOBS = {name: faulty for name, (faulty, _) in FAULTS.items()}


def permuted(job, order):
    """Return the same job with its ranks renumbered: the rank `order[n]` becomes n."""
    new = {old: number for number, old in enumerate(order)}

    def column(values):
        return tuple(values[old] for old in order)

    def window(old_window):
        def sample(tcp):
            return tcp and replace(tcp, peers=tuple(replace(p, rank=new[p.rank]) for p in tcp.peers))

        then, now = (replace(s, tcp=sample(s.tcp)) for s in (old_window.before, old_window.now))
        return replace(old_window, before=then, now=now, recent=sample(old_window.recent))

    return replace(
        job,
        ranks=tuple(sorted((replace(r, rank=new[r.rank]) for r in job.ranks), key=lambda r: r.rank)),
        hardware=tuple(map(window, job.hardware)),
        steps=tuple(
            replace(
                step,
                critical_rank=new[step.critical_rank],
                self_seconds=column(step.self_seconds),
                columns={name: column(values) for name, values in step.columns.items()},
            )
            for step in job.steps
        ),
    )


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_job_has_the_expected_causes(name):
    faulty, causes = FAULTS[name]
    assert {cause for rows in findings_by_detector(faulty).values() for cause, *_ in rows} == causes


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 2, 3, 0), (2, 0, 3, 1)], ids=str)
@pytest.mark.parametrize("name", JOBS)
def test_culprit_follows_a_permutation_of_the_ranks(name, order):
    expected = {
        detector: sorted(
            (cause, severity, sorted(order.index(r) for r in ranks), hosts) for cause, severity, ranks, hosts in rows
        )
        for detector, rows in findings_by_detector(JOBS[name]).items()
    }
    assert findings_by_detector(permuted(JOBS[name], order)) == expected


WITHOUT_SOURCE = {
    "gpus": lambda job: _without_samples(job, gpus=None),
    "nics": lambda job: _without_samples(job, nics=None),
    "tcp": lambda job: _without_samples(job, tcp=None),
    "load": lambda job: _without_samples(job, load=None),
    "hardware": lambda job: replace(job, hardware=()),
    "one host": lambda job: replace(job, hardware=job.hardware[1:]),
    "steps": lambda job: replace(job, steps=(), step_windows=(), baseline=None),
    "baseline": lambda job: replace(job, baseline=None),
    "flights": lambda job: replace(job, flights={}),
    "agents": lambda job: replace(job, agents=()),
}


def _without_samples(job: Snapshot, **gone) -> Snapshot:
    """Return the job whose hosts lack these parts of their samples."""
    windows = (replace(w, before=replace(w.before, **gone), now=replace(w.now, **gone)) for w in job.hardware)
    return replace(job, hardware=tuple(replace(w, recent=None) if "tcp" in gone else w for w in windows))


@pytest.mark.parametrize("source", WITHOUT_SOURCE)
@pytest.mark.parametrize("name", JOBS)
def test_missing_data_names_no_other_culprit(name, source):
    """The cause may change, or become unknown, or the culprit may be missing; but no other culprit is named."""
    assert culprits(WITHOUT_SOURCE[source](JOBS[name])) <= culprits(JOBS[name])


def culprits(job):
    """Return the ranks and hosts that any detector names."""
    rows = [row for of_detector in findings_by_detector(job).values() for row in of_detector]
    return {culprit for _, _, ranks, hosts in rows for culprit in (*ranks, *hosts)}


@pytest.mark.parametrize("seconds", [-60.0, -30.0, 30.0, 60.0])
@pytest.mark.parametrize("host", HOSTS[:3])
@pytest.mark.parametrize("name", JOBS)
def test_wrong_clock_of_a_host_changes_no_finding(name, host, seconds):
    def off(state):
        if state.host != host:
            return state
        words = state.last_words and replace(state.last_words, time=state.last_words.time + seconds)
        return replace(
            state, start=state.start + seconds, last_step_time=(state.last_step_time or NOW) + seconds, last_words=words
        )

    shifted = replace(JOBS[name], ranks=tuple(map(off, JOBS[name].ranks)))
    assert findings_by_detector(shifted) == findings_by_detector(JOBS[name])
