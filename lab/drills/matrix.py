"""All drills: faults on one host and on four hosts, and the quiet drills, about which zmon must not page."""

from __future__ import annotations

import signal
from dataclasses import replace

from lab.drills.drill import Drill
from lab.faults import cgroups, disk, gpu, network, ordinary, parts, signals, storage
from lab.faults.sabotage import held, hot_shard, many_ranks, one_rank
from lab.stage.network import DATA

SEVERAL = (4, 8)  # numbers of ranks with a majority, which shows the rank that deviates
SHORT = (0.02, 0.25)  # step times in seconds
FAST = (0.02,)
PAUSES = ("compute_hang", "input_stall", "unknown")  # the causes of a pause whose place is not known yet

FAULTS = (
    Drill("rank-raises", "one rank raises an exception", one_rank("raise", lifts=False), ("rank_exited",), "stall",
          proof="state", evidence=("ValueError", "bad sample in shard 17", "shard 17 is truncated")),
    Drill("rank-killed", "SIGKILL to one rank", signals.kill_rank, ("rank_exited",), "stall",
          proof="state", evidence=("SIGKILL",)),
    Drill("rank-oom", "one rank exceeds its control group's memory", cgroups.out_of_memory, ("rank_exited",), "stall",
          proof="state", evidence=("out of memory",), unavailable=cgroups.unavailable()),
    Drill("rank-frozen", "SIGSTOP to one rank that trains", signals.stop_rank, ("rank_frozen",), "stall",
          proof="state"),
    Drill("rank-frozen-init", "SIGSTOP to one rank that starts", signals.stop_rank, ("rank_frozen",), "stall",
          proof="state", begins="starting"),
    Drill("rank-frozen-eval", "SIGSTOP to one rank in an evaluation", signals.stop_rank_in_evaluation,
          ("rank_frozen",), "stall", proof="state", step_seconds=SHORT),
    Drill("gil-held", "one rank waits in native code and holds the interpreter lock", held("hold_interpreter"),
          ("compute_hang",), "stall", evidence=("hold_interpreter",)),
    Drill("lock-deadlock", "one rank waits for a lock outside any collective", held("deadlock"),
          ("compute_hang",), "stall", evidence=("wait_for_lock",)),
    Drill("loop-left", "one rank leaves the training loop and stays", one_rank("leave", lifts=False),
          ("compute_hang",), "stall", evidence=("linger",)),
    Drill("loader-hang", "one rank's data loader never returns", held("loader_hangs"), ("input_stall",), "stall"),
    Drill("collective-skipped", "one rank leaves out a collective", one_rank("skip", lifts=False),
          ("collective_mismatch",), "stall", ranks=SEVERAL, evidence=("all_reduce", "all_to_all")),
    Drill("size-mismatch", "one rank calls a collective with another shape", one_rank("size", lifts=False),
          ("collective_mismatch",), "stall", proof="state", ranks=SEVERAL),
    Drill("checkpoint-hang", "the store stops answering one rank's checkpoint", storage.checkpoint_hangs,
          ("lease_overrun",), "stall", proof="lease", step_seconds=SHORT, job={"checkpoint_steps": 20}),
    Drill("slow-rank", "one rank computes half as long again", one_rank("slow", 1.5), ("compute_straggler",),
          "straggler", proof="steps"),
    Drill("slow-loader", "one rank's input takes half a step longer", one_rank("slow_loader", 0.5),
          ("input_straggler",), "straggler", proof="steps"),
    Drill("slow-disk", "the disk with one rank's rows answers slowly", disk.reads_slowly, ("offload_straggler",),
          "straggler", proof="steps", kinds=("trainer",), ranks=(2,), step_seconds=(0.25,),
          job={"row_memory": 600_000}, unavailable=cgroups.unavailable("blkio")),
    Drill("hot-table", "one shard receives three times the mean", hot_shard, ("all_to_all_skew",), "imbalance",
          proof="steps", kinds=("trainer", "plain"), ranks=SEVERAL),
    Drill("throttled", "a GPU throttles for heat, and its rank computes half as long again", gpu.throttled,
          ("thermal_throttle",), "straggler", proof="steps", evidence=("GPU-{rank}",),
          unavailable=gpu.unavailable, needs_stack=True),
    Drill("nan", "the loss becomes NaN", one_rank("spoil", lifts=False), ("divergence",), "divergence",
          proof="steps", kinds=("trainer", "ddp")),
    Drill("agent-killed", "SIGKILL to the only agent, for good", parts.kill_agent,
          ("ZmonAgentDown", "ZmonAgentsAbsent"), culprit="none", proof="watcher",
          afterwards=parts.agent_lost_nothing, needs_stack=True),
    Drill("hub-killed", "SIGKILL to the hub, for good, then SIGSTOP to a rank", parts.kill_hub,
          ("ZmonLeaseOverdue",), culprit="none", proof="watcher", step_seconds=SHORT,
          afterwards=parts.hub_lost_nothing, needs_stack=True, with_acts=False),
    Drill("prometheus-killed", "SIGKILL to Prometheus and SIGSTOP to a rank meanwhile", parts.kill_prometheus,
          ("rank_frozen",), "stall", proof="state", afterwards=parts.prometheus_lost_nothing, needs_stack=True),
)  # fmt: skip

QUIET = (
    Drill("finish", "the job trains to its end", ordinary.finishes, job={"steps": 200}, step_seconds=SHORT),
    Drill("cancelled-term", "SIGTERM to torchrun", signals.cancel(signal.SIGTERM)),
    Drill("cancelled-int", "Ctrl-C to torchrun", signals.cancel(signal.SIGINT)),
    Drill("evaluation", "all ranks evaluate for 20 s", many_ranks("evaluate", 20.0), watch_seconds=28.0),
    Drill("evaluation-rank-0", "rank 0 evaluates for 20 s, the others wait", many_ranks("evaluate", 20.0, (0,)),
          watch_seconds=28.0),
    Drill("checkpoint", "all ranks save for 10 s", many_ranks("save", 10.0), watch_seconds=18.0),
    Drill("checkpoint-rank-0", "rank 0 saves for 10 s, the others wait", many_ranks("save", 10.0, (0,)),
          watch_seconds=18.0),
    Drill("slow-start", "the first step takes 50 times as long", ordinary.nothing, job={"slow_start": 50.0},
          step_seconds=SHORT),
    Drill("pause", "one rank pauses for ten steps", one_rank("pause"), watch_seconds=12.0),
    Drill("epochs", "loader workers take 6 s at the start of each epoch", many_ranks("epochs", 6.0), step_seconds=FAST,
          watch_seconds=40.0),
    Drill("save-unseen", "rank 0 saves with numpy for 3 s every 100 steps", many_ranks("save_array", 3.0, (0,)),
          step_seconds=FAST, watch_seconds=40.0, may_warn=PAUSES, max_warnings=1),
    Drill("save-unseen-all", "all ranks save with numpy for 3 s every 100 steps", many_ranks("save_array", 3.0),
          step_seconds=FAST, watch_seconds=40.0, may_warn=PAUSES, max_warnings=1),
    Drill("recompile", "one rank compiles again for 6 s every 100 steps", many_ranks("compile", 6.0, (1,)),
          step_seconds=FAST, watch_seconds=40.0, may_warn=PAUSES, max_warnings=1),  # torch imports its compiler first
    Drill("recompile-all", "all ranks compile again for 6 s every 100 steps", many_ranks("compile", 6.0),
          step_seconds=FAST, watch_seconds=40.0, may_warn=PAUSES, max_warnings=1),
    Drill("pauses-at-random", "one rank pauses for 2 to 15 s every 100 steps", many_ranks("pauses", 0.0, (1,)),
          step_seconds=FAST, watch_seconds=60.0, may_warn=PAUSES),
    Drill("pooling", "lookups per batch vary by a factor of five", many_ranks("pooling"), watch_seconds=30.0),
    Drill("slightly-slower", "one rank is 5 % slower", one_rank("slow", 1.05), watch_seconds=30.0),
    Drill("batch-change", "batch size and learning rate change", many_ranks("batch", 1.6), watch_seconds=30.0),
    Drill("fewer-ranks", "an elastic restart on half the ranks", ordinary.fewer_ranks, ranks=(4, 8),
          step_seconds=SHORT, job={"launchers": 2, "max_restarts": 3}, may_warn=("rank_exited",)),
    Drill("agent-restart", "the agent is killed and comes back", parts.restart("agent"),
          watch_seconds=12.0, needs_stack=True),
    Drill("hub-restart", "the hub is killed and comes back", parts.restart("hub"),
          watch_seconds=12.0, needs_stack=True),
    Drill("prometheus-restart", "Prometheus is killed and comes back", parts.restart("prometheus"),
          watch_seconds=12.0, needs_stack=True),
    Drill("left-box", "boxes of a job that died long ago appear", ordinary.left_box, watch_seconds=12.0),
    Drill("contention", "other programs take the processors for 2 s", ordinary.contention),
    Drill("host-suspended", "everything on the host stops for 6 s, twice, as when a virtual machine moves",
          ordinary.suspended, step_seconds=FAST, watch_seconds=12.0),
    Drill("job-suspended", "launchers and ranks of the job stop for 6 s, as a scheduler suspends them",
          ordinary.job_suspended, watch_seconds=12.0, may_warn=("rank_frozen",)),
    Drill("container-paused", "the freezer holds launchers and ranks of the job for 6 s, as `docker pause` does",
          cgroups.container_paused, watch_seconds=12.0, may_warn=("rank_frozen",),
          unavailable=cgroups.unavailable("freezer")),
    Drill("debugger", "a debugger holds one rank for 12 s", ordinary.debugger, watch_seconds=12.0,
          may_warn=("rank_frozen",)),
    Drill("two-jobs", "another job trains on the same host", ordinary.second_job, step_seconds=SHORT),
)  # fmt: skip

# On four hosts: faults of the network between them, and of their clocks.
HOSTS = (
    Drill("link-down", "the data link of one host is cut", network.link_down, ("network_stall",), "stall",
          culprit="host", proof="state", stage="hosts", ranks=(4, 8), evidence=(DATA,),
          unavailable=network.unavailable),
    Drill("host-lost", "data and management links of one host are cut", network.host_lost, ("host_lost",), "stall",
          culprit="host", stage="hosts", ranks=(4, 8), may_warn=("agent_unreachable",),
          unavailable=network.unavailable),
    Drill("link-slow", "the data link of one host carries a tenth", network.link_slow, ("network_slow",), "straggler",
          culprit="host", proof="steps", stage="hosts", ranks=(4, 8), step_seconds=SHORT,
          job={"exchange_rate": 3e6}, evidence=(DATA,), unavailable=network.unavailable),
    Drill("pair-cut", "packets between two hosts are lost, each way or one way", network.pair_cut, ("network_stall",),
          "stall", culprit="pair", stage="hosts", ranks=(4, 8), evidence=(DATA,), unavailable=network.unavailable),
    Drill("pair-slow", "the path between two hosts carries a twentieth", network.pair_slow, ("network_slow",),
          "straggler", culprit="pair", proof="steps", stage="hosts", ranks=(4, 8), step_seconds=SHORT,
          job={"exchange_rate": 3e6}, evidence=(DATA,), unavailable=network.unavailable),
    Drill("clock-off", "the clock of one host is 30 s off", network.clock_off, stage="hosts", ranks=(4, 8),
          unavailable=network.no_clocks),
)  # fmt: skip

ALL: tuple[Drill, ...] = (*FAULTS, *QUIET, *HOSTS)
WATCHED = tuple(  # the drills that can be played under zmon watch
    # Each launcher has its own watch. If the ranks of one launcher end, the watch of another cannot see the cause.
    replace(drill, may_warn=(*drill.may_warn, "unknown")) if drill.job.get("launchers", 1) != 1 else drill
    for drill in ALL
    if drill.stage == "host" and not drill.needs_stack
)
