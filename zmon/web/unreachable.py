"""The errors of a request that got no answer, as one line with the likely cause."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

import aiohttp

from zmon.errors import NotListening, Unreachable

_CERTIFICATES = "Check ca_file, server_name and the certificate in --http-config"


@contextlib.contextmanager
def unreachable(url: str, seconds: float, certificates: str = _CERTIFICATES) -> Iterator[None]:
    """Raise Unreachable in place of what aiohttp and the system raise.

    `seconds`: the time limit of the request; `certificates`: the next step if TLS fails.
    """
    try:
        yield
    except TimeoutError as error:
        raise Unreachable(f"{url} did not answer within {seconds:g} s") from error
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
        reason = getattr(cause, "verify_message", "") or getattr(cause, "reason", None) or str(cause)
        if reason == "WRONG_VERSION_NUMBER":
            raise Unreachable(f"cannot reach {url}", "that port has no TLS", "Write http:// in its URL") from error
        raise Unreachable(f"cannot reach {url}", reason.rstrip("."), certificates) from error
    except aiohttp.ServerDisconnectedError as error:
        is_plain = url.startswith("http://")
        likely = "that port may have TLS: write https://" if is_plain else "it may not accept the client certificate"
        raise Unreachable(f"cannot reach {url}", f"it closed the connection; {likely}") from error
    except aiohttp.ClientConnectorError as error:
        number = error.errno or 0  # negative if the name was not resolved
        kind = NotListening if number == errno.ECONNREFUSED else Unreachable
        raise kind(f"cannot reach {url}", os.strerror(number) if number > 0 else str(error)) from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise Unreachable(f"cannot reach {url}", "it is not a valid URL", "write it as http://HOST:PORT") from error
    except (aiohttp.ClientResponseError, ValueError) as error:  # not HTTP; the text repeats what was sent
        raise Unreachable(f"cannot reach {url}", "its answer is not HTTP") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"cannot reach {url}", str(error) or type(error).__name__) from error
