"""HTTP for both sides: a server for the daemons, and a client that asks them.

`server`, `client` and `http_client` are these two. `web_config`, `tls`, `passwords` and `access` say who may ask for
what, `guard` refuses web pages of other sites. `connections`, `limits` and `work_queue` limit what clients
can use up. `kubernetes/` asks the API server of Kubernetes.
"""
