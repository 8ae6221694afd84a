"""The level "restricted" of the Pod Security Standards of Kubernetes, as a check of a pod."""

RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def violations(pod):
    """Return what "restricted" refuses in a pod."""
    refused = [key for key in ("hostPID", "hostNetwork", "hostIPC") if pod.get(key)]
    refused += ["volumes" for volume in pod.get("volumes", ()) if not set(volume) - {"name"} <= RESTRICTED_VOLUMES]
    of_pod = pod.get("securityContext", {})
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        context = of_pod | container.get("securityContext", {})
        capabilities = context.get("capabilities", {})
        refused += ["hostPort" for port in container.get("ports", ()) if port.get("hostPort")]
        is_refused = {
            "privileged": context.get("privileged", False),
            "escalation": context.get("allowPrivilegeEscalation") is not False,
            "root": not context.get("runAsNonRoot") or context.get("runAsUser") == 0,
            "seccomp": context.get("seccompProfile", {}).get("type") != "RuntimeDefault",
            "capabilities": capabilities.get("drop") != ["ALL"]
            or not set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"},
        }
        refused += [name for name, is_so in is_refused.items() if is_so]
    return refused
