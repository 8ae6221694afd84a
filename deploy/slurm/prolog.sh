#!/bin/sh
# Prolog= of slurm.conf: makes the directory of the user's black boxes, so that nobody else can take its name, and a file
# that tells the agent which GPUs the job holds. Runs as root on each node before a job. It never fails, because Slurm
# drains a node whose prolog fails.
case "$SLURM_JOB_UID" in '' | *[!0-9]*) exit 0 ;; esac
{
  # Only a tmpfs of its own: a directory in /run that everybody may write lets a job stop systemd, sshd and slurmd.
  mountpoint -q /run/zmon || timeout 5 systemctl start run-zmon.mount
  if mountpoint -q /run/zmon; then
    folder=/run/zmon/$SLURM_JOB_UID
  else
    folder=/dev/shm/zmon-$SLURM_JOB_UID
  fi
  mkdir -m 0700 "$folder" && chown "$SLURM_JOB_UID:$SLURM_JOB_GID" "$folder"
  # SLURM_JOB_GPUS is 0,1 for /dev/nvidia0 and /dev/nvidia1, and empty for a job without GPUs. The epilog removes the file.
  case "$SLURM_JOB_GPUS" in '' | *[!0-9,]*) exit 0 ;; esac
  case "$SLURM_JOB_ID" in '' | *[!0-9]*) exit 0 ;; esac
  case "$SLURM_JOB_USER" in *[!A-Za-z0-9._-]*) SLURM_JOB_USER='' ;; esac
  umask 022
  held=/run/zmon-held/slurm-$SLURM_JOB_ID
  mkdir -p "${held%/*}" && printf '{"gpus": [%s], "user": "%s", "group": "/job_%s"}\n' \
    "$SLURM_JOB_GPUS" "$SLURM_JOB_USER" "$SLURM_JOB_ID" >"$held.new" && mv "$held.new" "$held.json"
} >/dev/null 2>&1
exit 0
