"""Which proxy a request goes through: none to this machine, else that of the environment."""

import ipaddress
import os

import httpx

from resources.settings import PublicError

PROXY_VARIABLES = ("all_proxy", "http_proxy", "https_proxy")


class ProxyError(PublicError, RuntimeError):
    """A proxy that the environment names cannot be used; the message says which, and what to do."""


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine alone, where no proxy leads."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_problem() -> str:
    """Say which proxy of the environment cannot be used, and what to do; nothing if all can."""
    try:
        httpx.Client().close()
    # a SOCKS proxy without its library, a scheme that is no proxy's, no address
    except (ImportError, ValueError, httpx.InvalidURL):
        proxies = [
            f"{name}={value}"
            for name, value in os.environ.items()
            if name.lower() in PROXY_VARIABLES
        ]
        return (
            f"A proxy cannot be used, because its address does not begin with http:// or https://: "
            f"{', '.join(proxies)}. Set it to an HTTP proxy, or unset it."
        )
    return ""


def http_client(timeout: httpx.Timeout, *, loopback: bool) -> httpx.Client:
    """Return a client that follows no redirects.

    Args:
        timeout: Seconds for each step of a request.
        loopback: Whether it is for this machine alone.

    Raises:
        ProxyError: The proxy of the environment cannot be used.
    """
    problem = "" if loopback else proxy_problem()
    if problem:
        raise ProxyError(problem)
    return httpx.Client(timeout=timeout, trust_env=not loopback)
