"""Checks the pods of the agents: whether they exist, whether each node has one, and whether Pod Security lets them run.

Kubernetes accepts a DaemonSet even if it refuses all its pods: the DaemonSet stays without pods. Pure.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.doctor.check import Check, unreadable
from zmon.doctor.kubernetes.objects import ClusterObjects, DaemonSet, Namespace, TemplateSpec, known
from zmon.errors import Unreachable
from zmon.format import counted, listed
from zmon.web.kubernetes.agent_pods import Pod, PodSelection, agent_url

ENFORCE = "pod-security.kubernetes.io/enforce"
_PRIVILEGED, _BASELINE = "privileged", "baseline"
_BASELINE_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def checks(objects: ClusterObjects) -> list[Check]:
    """Return the checks of the pods of agents, of their DaemonSets, and of their namespace."""
    if objects.agents is None:
        next_step = "Give --agents-kubernetes NAMESPACE/SELECTOR, as to zmon hub."
        return [Check("pods of agents", None, "nobody has said in which namespace they are", next_step)]
    results = [_pods(objects.agents, objects.pods)]
    if isinstance(objects.daemon_sets, Unreachable):
        results.append(unreadable("DaemonSet of agents", objects.daemon_sets))
    elif not objects.daemon_sets:
        result = f"the namespace {objects.agents.namespace} has none with the labels {objects.agents.selector}"
        results.append(Check("DaemonSet of agents", None, result))
    daemon_sets = known(objects.daemon_sets)
    results += map(_daemon_set, daemon_sets)
    return [*results, _pod_security(objects.agents, daemon_sets, objects.namespaces)]


def _pods(agents: PodSelection, pods: tuple[Pod, ...] | Unreachable) -> Check:
    name = "pods of agents"
    if isinstance(pods, Unreachable):
        return unreadable(name, pods)
    where = f"the labels {agents.selector} in the namespace {agents.namespace}"
    if not pods:
        return Check(name, False, f"no pod has {where}, so the hub has no agents", "Correct --agents-kubernetes.")
    running = sum(agent_url(pod, "http", None) is not None for pod in pods)
    result = f"{counted(len(pods), 'pod')} with {where}, {running} with an address"
    return Check(name, running > 0, result, "" if running else f"Run `kubectl -n {agents.namespace} get pods`.")


def _daemon_set(daemon_set: DaemonSet) -> Check:
    """Check that each node that should have a pod of an agent has one, and that it is ready."""
    meta, status = daemon_set.metadata, daemon_set.status
    name = f"DaemonSet {meta.namespace}/{meta.name}"
    desired = status.desired_number_scheduled
    describe = f"Run `kubectl -n {meta.namespace} describe daemonset {meta.name}` and read its events."
    if status.observed_generation < meta.generation:
        return Check(name, None, "has just been changed")
    if desired == 0:
        result = "no node fits its node selector, affinity and tolerations, so there is no agent"
        return Check(name, False, result, describe)
    if status.current_number_scheduled < desired:
        missing = desired - status.current_number_scheduled
        result = f"{missing} of {counted(desired, 'node')} have no pod; Pod Security or a quota may refuse it"
        return Check(name, False, result, describe)
    if status.number_ready < desired:
        missing = desired - status.number_ready
        next_step = f"Run `kubectl -n {meta.namespace} get pods -o wide` to see which."
        return Check(name, False, f"{missing} of {counted(desired, 'pod')} are not ready", next_step)
    return Check(name, True, f"{counted(desired, 'pod')} ready, one on each node that should have one")


def _pod_security(
    agents: PodSelection, daemon_sets: Sequence[DaemonSet], namespaces: tuple[Namespace, ...] | Unreachable
) -> Check:
    """Check that the level of Pod Security in the namespace of the agents lets them run."""
    name = f"Pod Security {agents.namespace}"
    if isinstance(namespaces, Unreachable):
        return unreadable(name, namespaces)
    labels = next((space.metadata.labels for space in namespaces if space.metadata.name == agents.namespace), None)
    if labels is None:
        return Check(name, False, "there is no such namespace", "Correct --agents-kubernetes.")
    level = labels.get(ENFORCE)
    if level is None:
        return Check(name, None, f"the namespace has no label {ENFORCE}: the cluster's default decides")
    if level == _PRIVILEGED:
        return Check(name, True, f"{ENFORCE} is {_PRIVILEGED}: every pod may run")
    needs = sorted({need for daemon_set in daemon_sets for need in beyond_baseline(daemon_set.spec.template.spec)})
    if needs:
        result = f"{ENFORCE} is {level}, which refuses pods with {listed(needs)}"
        next_step = f"Run `kubectl label --overwrite namespace {agents.namespace} {ENFORCE}={_PRIVILEGED}`."
        return Check(name, False, result, next_step)
    is_known = level == _BASELINE and bool(daemon_sets)
    suffix = "" if is_known else "; whether it refuses agents is unknown"
    return Check(name, True if is_known else None, f"{ENFORCE} is {level}{suffix}")


def beyond_baseline(pod: TemplateSpec) -> list[str]:
    """Return what the level baseline of Pod Security refuses in a pod."""
    containers = (*pod.containers, *pod.init_containers)
    settings = {
        "hostNetwork": pod.host_network,
        "hostPID": pod.host_pid,
        "hostIPC": pod.host_ipc,
        "hostPath volumes": any(volume.host_path is not None for volume in pod.volumes),
        "privileged containers": any(container.security_context.privileged for container in containers),
        "hostPort": any(port.host_port for container in containers for port in container.ports),
    }
    added = dict.fromkeys(word for container in containers for word in container.security_context.capabilities.add)
    refused = [word for word, is_set in settings.items() if is_set]
    return [*refused, *(word for word in added if word not in _BASELINE_CAPABILITIES)]
