"""A job over time: aligned ranks and steps, leases, baselines, its time account, and what happened to ranks. Pure.

Snapshots: `agent_reports` makes the reports of agents comparable, `timeline` makes one snapshot per job from them, with
`history` and `alignment` for the steps, `roles`, `shared_ids`, `second_launches` and `restarts`.
Facts and ends: `facts` says when something happened to a rank, with which tolerance, and what came first. `rank_end`
classifies how one rank ended. `ends` names the ranks that ended first, with `aborts`, `signals` and
`connection_errors`. `outcome` says how a launch ended.
Findings: `merging` joins findings about one fault, `headline` says in one line how a job is, `ended_job` records its
end.
Time: `lease` has the time that a rank may go without progress, `baseline` the step time of the healthy job,
`efficiency`, `time_account`, `utilization` and `gpu_activity` the time of steps and of the job.
"""
