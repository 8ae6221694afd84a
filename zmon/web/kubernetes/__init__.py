"""A small client of the Kubernetes API: list objects, and watch how they change, with the rights of a service account.

| file | what it does |
|---|---|
| `api_server.py` | the address of the API server, and the credentials of a pod |
| `requests.py` | list and watch a resource, with its path and the rule of RBAC that allows to read it |
| `agent_pods.py` | which pods are agents, and the URL of each |

The reasons for an own client are in docs/dependencies.md.
"""
