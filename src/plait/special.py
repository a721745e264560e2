"""Special functions of SciPy, imported at the first call: most answers of a saved run need none of them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy.special import (
        betainc,
        betaln,
        gamma,
        gammainc,
        gammaincc,
        gammaincinv,
        gammaln,
        loggamma,
        logsumexp,
        ndtr,
        ndtri,
        polygamma,
        psi,
        xlogy,
    )

__all__ = [
    "betainc",
    "betaln",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaincinv",
    "gammaln",
    "loggamma",
    "logsumexp",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "xlogy",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import scipy.special

    globals()[name] = function = getattr(scipy.special, name)
    return function
