"""URLs of databases, and their passwords, which no message may show."""

import re
from urllib.parse import unquote

MASK = "***"
_QUERY = re.compile(r"(?i)([?&](?:ssl)?password=)([^&]*)")


def without_password(url: str) -> str:
    """The URL with its password masked: all up to the last @, since one that was not escaped may hold anything."""
    scheme, _, rest = url.partition("://")
    account, at, place = rest.rpartition("@")
    user, colon, password = account.partition(":")
    if at and colon and password:
        rest = f"{user}:{MASK}@{place}"
    return f"{scheme}://" + _QUERY.sub(lambda match: match[1] + MASK, rest)


def scrubbed(message: str, url: str) -> str:
    """A message without the password of the URL: whole, decoded, or the pieces that a parser may have made of it."""
    for secret in sorted(_secrets(url), key=len, reverse=True):
        message = message.replace(secret, MASK)
    return message


def _secrets(url: str) -> set[str]:
    account = url.partition("://")[2].rpartition("@")[0]
    found = [account.partition(":")[2], *(match[2] for match in _QUERY.finditer(url))]
    found += [unquote(secret) for secret in found]
    pieces = [piece for secret in found for piece in re.split(r"[/@:?#&=]", secret) if len(piece) > 2]
    return {secret for secret in found + pieces if secret}
