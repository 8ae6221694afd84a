"""An authority of a test, its pairs of certificate and key in a directory, and the web.yaml that names them."""

import ssl
from datetime import UTC, datetime, timedelta

import bcrypt
import trustme
import yaml

from zmon.web.live_config import LiveConfig

BCRYPT_HASH = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"  # of some password
SERVER = {"cert_file": "server.pem", "key_file": "server.key"}
MUTUAL = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.pem"}
OPTIONAL = SERVER | {"client_auth_type": "VerifyClientCertIfGiven", "client_ca_file": "ca.pem"}


def hashed(password, cost=4):
    """Return the bcrypt hash of a password, of which bcrypt takes no more than 72 bytes."""
    return bcrypt.hashpw(password.encode("utf-8", "surrogateescape")[:72], bcrypt.gensalt(cost)).decode()


def live_config(folder, **keys):
    """Write `web.yaml` with these keys beside the certificates, and return it as a daemon reads it."""
    path = folder / "web.yaml"
    path.write_text(yaml.safe_dump(keys))
    return LiveConfig(path)


class Certificates:
    """An authority that issues certificates into a directory."""

    def __init__(self, directory, name="ca"):
        self.directory, self.authority = directory, trustme.CA()
        self.ca_file = directory / f"{name}.pem"
        self.authority.cert_pem.write_to_path(str(self.ca_file))

    def issue(self, name, *identities, expired=False):
        """Write `<name>.pem` and `<name>.key`, and return both paths."""
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        issued = self.authority.issue_cert(*identities, not_after=until)
        pem, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        pem.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return pem, key

    def client(self, pair=None, version=None):
        """Return the context of a client that trusts this authority, with a certificate if `pair` has one."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if version is not None:
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
        if pair is not None:
            context.load_cert_chain(*pair)
        return context
