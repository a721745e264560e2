"""Names and numbers of this machine."""

import ipaddress
import socket


def own_names(host: str) -> set[str]:
    """The names under which a browser may know this machine."""
    names = {"localhost", "127.0.0.1", "::1", host.strip("[]").lower()}
    return names if is_loopback(host) else {*names, socket.gethostname().lower()}


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_address(name: str) -> bool:
    """Whether a host is a number: nobody can point a number at another machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
