#!/bin/sh
# TaskProlog= of slurm.conf: names the job for zmon, by job and step, so that two steps of a job are two jobs for zmon.
# What it prints as "export NAME=value" becomes part of the environment of the task (slurm.conf(5)).
# A name that the user has given stays.
case "$ZMON_JOB_ID" in
  '' | "slurm-$SLURM_JOB_ID".*) [ -z "$SLURM_JOB_ID" ] || echo "export ZMON_JOB_ID=slurm-$SLURM_JOB_ID.${SLURM_STEP_ID:-batch}" ;;
esac
exit 0
