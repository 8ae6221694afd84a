#!/bin/sh
# Epilog= of slurm.conf: removes the black boxes of this job on this node, and of no other, and its file in
# /run/zmon-held, as it holds no GPU any more. Runs as root after a job.
# It never fails, because Slurm drains a node whose epilog fails. Boxes stay for a minute, so that the agent can read
# how the ranks ended. zmon removes them itself after 15 minutes; this makes room earlier.
for number in "$SLURM_JOB_ID" "$SLURM_JOB_UID" "$SLURM_JOB_GID"; do
  case "$number" in '' | *[!0-9]*) exit 0 ;; esac
done
rm -f "/run/zmon-held/slurm-$SLURM_JOB_ID.json"
# It becomes the user, who may have put links there: nobody else's files can be deleted then. The wait is in a session of
# its own, or Slurm ends it with the epilog.
setsid setpriv --reuid="$SLURM_JOB_UID" --regid="$SLURM_JOB_GID" --clear-groups sh -c '
  {
    sleep "$2"
    find "/run/zmon/$(id -u)" "/dev/shm/zmon-$(id -u)" -mindepth 1 -maxdepth 1 -type d \
      \( -name "slurm-$1" -o -name "slurm-$1.*" \) -exec rm -rf {} +
  } &
' epilog "$SLURM_JOB_ID" "${ZMON_EPILOG_SECONDS:-60}" </dev/null >/dev/null 2>&1
exit 0
