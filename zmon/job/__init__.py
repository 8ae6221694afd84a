"""A job over time: aligned ranks and steps, leases, baselines, its time account, and what happened to ranks. Pure.

- Snapshots: `agent_reports` makes the reports of agents comparable, `timeline` makes one snapshot per job from them.
  `history` and `alignment` line up the steps. `shared_ids` and `second_launches` separate jobs with the same id,
  `restarts` compares the launches of a job, and `roles` groups ranks that do the same work.
- Facts and ends: `facts` says when something happened to a rank, with which tolerance, and what came first. `rank_end`
  classifies how one rank ended. `ends` names the ranks that ended first, with `aborts`, `signals` and
  `connection_errors`. `outcome` says how a launch ended.
- Findings: `merging` joins findings about one fault, `headline` sums up the state of a job, `ended_job` records its
  end.
- Time: `lease` has the time that a rank may go without progress, `baseline` the step time of the healthy job,
  `efficiency` the time categories of a step, and `time_account` those of a job. `utilization` and `gpu_activity` have
  the work of its devices.
"""
