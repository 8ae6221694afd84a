#!/bin/sh
# HealthCheckProgram of Slurm: asks the agent of this node about lasting faults of the hardware.
# It changes nothing unless ZMON_DRAIN=1, and never fails: Slurm would not tell why.
# A broken installation also ends with 1, so only a line that begins with "fault: " counts. A node that is drained
# already keeps its reason.
zmon=${ZMON:-/opt/zmon/bin/zmon} node=${SLURMD_NODENAME:-$(hostname -s)}
line=$(timeout 3 "$zmon" check --host 2>/dev/null)
case $line in "fault: "*) ;; *) exit 0 ;; esac
if [ "${ZMON_DRAIN:-0}" = 1 ] && ! timeout 3 scontrol show node "$node" 2>/dev/null | grep -q DRAIN; then
  timeout 3 scontrol update "nodename=$node" state=drain reason="zmon: $line"
fi
exit 0
