"""HTTP for both sides: a server for the daemons, and a client that asks them.

`server` serves, and `client` and `http_client` ask. `web_config`, `tls`, `passwords` and `access` decide who may ask
for what, and `guard` refuses web pages of other sites. `connections`, `limits` and `work_queue` limit what clients can
use up. `kubernetes/` asks the API server of Kubernetes.
"""
