"""Tests of the API server of this cluster, and of the credentials of a pod."""

import ssl
from contextlib import asynccontextmanager

import pytest

from tests.web.certificates import Certificates
from tests.web.kubernetes.fake_api import FakeApi, pod
from zmon.errors import Unreachable, UsageError
from zmon.web.kubernetes.api_server import in_cluster
from zmon.web.kubernetes.requests import ObjectMeta, Resource, list_objects

INSIDE = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path):
    """The directory of a service account, as the kubelet makes it, and the authority of its cluster."""
    certificates = Certificates(tmp_path, "ca")
    (tmp_path / "ca.pem").rename(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("token-1")
    certificates.issue("server", "127.0.0.1")
    return tmp_path


@asynccontextmanager
async def api_and_count(account):
    """Yield an API server that has TLS, and a function that counts its pods as a pod does."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(account / "server.pem", account / "server.key")
    async with FakeApi(a=pod("a")).serve(tls) as api:
        server = in_cluster(INSIDE | {"KUBERNETES_SERVICE_PORT": str(api.port)}, account)
        async with server.session() as session:

            async def count():
                resource = Resource("pods", namespace="zmon")
                return len((await list_objects(session, server.url, resource, ObjectMeta)).objects)

            yield api, count


async def test_pod_asks_with_the_token_that_its_file_has_now(account):
    async with api_and_count(account) as (api, count):
        assert await count() == 1
        api.tokens = {"token-2"}
        with pytest.raises(Unreachable, match="401"):
            await count()
        (account / "token").write_text("token-2")
        assert await count() == 1


async def test_server_of_another_authority_is_not_asked(account, tmp_path):
    other = Certificates(tmp_path, "other")
    other.ca_file.replace(account / "ca.crt")

    async with api_and_count(account) as (api, count):
        with pytest.raises(Unreachable, match=r"cannot reach .*certificate.* Check ca\.crt of the service account"):
            await count()
        assert api.authorizations == []


def test_address_of_ipv6_is_in_brackets(account):
    server = in_cluster(INSIDE | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)
    assert server.url == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    "environ", [{}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, INSIDE | {"KUBERNETES_SERVICE_HOST": ""}]
)
def test_process_outside_of_a_cluster_is_told_to_run_in_a_pod(account, environ):
    with pytest.raises(
        UsageError, match=r"no API server of Kubernetes: .*\. Run this in a pod that has a service account"
    ):
        in_cluster(environ, account)


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_pod_without_service_account_is_told_what_is_missing(account, name):
    (account / name).unlink()
    with pytest.raises(
        UsageError, match=rf"no service account of Kubernetes: cannot read .*/{name}: No such file"
    ) as refused:
        in_cluster(INSIDE, account)
    assert "automountServiceAccountToken" in str(refused.value)


def test_broken_authority_is_an_error(account):
    (account / "ca.crt").write_text("nothing")
    with pytest.raises(UsageError, match="no certificate of an authority"):
        in_cluster(INSIDE, account)
