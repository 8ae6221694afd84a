"""The page of this run at W&B, MLflow or Comet, from the variables that a launch script sets for them.

A tracker without all parts of the URL in the environment has no page here: then the id of the run is only made within
the job. TensorBoard has no variable for its address; a job gives it as the label `run_page`. Keys and tokens are in
other variables, which are not read. An address with a user or a password has no page.

Sources: https://docs.wandb.ai/guides/track/environment-variables, https://docs.wandb.ai/models/runs/run-identifiers,
https://mlflow.org/docs/latest/tracking.html, https://comet.com/docs/v2/deploying-comet/linux/sdk-config.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from zmon.probe.labels import with_label
from zmon.schema.names import RUN_PAGE, run_page

_SERVER = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_OFFLINE = ("offline", "disabled", "dryrun")


def with_run_page(labels: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the labels with the page of this run, unless they have one, or there is no room for it."""
    if RUN_PAGE in labels:
        return dict(labels)
    return with_label(labels, RUN_PAGE, run_page({RUN_PAGE: _wandb(env) or _mlflow(env) or _comet(env)}))


def _wandb(env: Mapping[str, str]) -> str:
    if env.get("WANDB_MODE") in _OFFLINE:
        return ""
    # W&B's own server has its pages at another host than its API; a self-hosted server has both at one host.
    server = env.get("WANDB_BASE_URL", "https://api.wandb.ai").replace("://api.wandb.", "://wandb.")
    return _page(server, "/{}/{}/runs/{}", env, "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_RUN_ID")


def _mlflow(env: Mapping[str, str]) -> str:
    server = env.get("MLFLOW_TRACKING_URI", "")  # it may be a folder or a database, which has no pages
    return _page(server, "/#/experiments/{}/runs/{}", env, "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID")


def _comet(env: Mapping[str, str]) -> str:
    server = env.get("COMET_URL_OVERRIDE", "https://www.comet.com").rstrip("/").removesuffix("/clientlib")
    return _page(server, "/{}/{}/{}", env, "COMET_WORKSPACE", "COMET_PROJECT_NAME", "COMET_EXPERIMENT_KEY")


def _page(server: str, path: str, env: Mapping[str, str], *variables: str) -> str:
    """Return the URL of a page of this server; "" if a part of it is missing or has unusual characters."""
    server, parts = server.rstrip("/"), [env.get(variable, "") for variable in variables]
    if not _SERVER.fullmatch(server) or not all(map(_NAME.fullmatch, parts)):
        return ""
    return server + path.format(*parts)
