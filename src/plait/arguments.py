"""Arguments that a function does not have: what was meant, by a close name, or by that of other libraries."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ParamSpec, TypeVar

from plait.errors import UnknownArgumentError, suggestion

P = ParamSpec("P")
T = TypeVar("T")

# What scikit-learn, implicit, PyKEEN, TensorLy, Surprise, pymc and others say -> what Plait says.
OF_FIT = {
    "rank": "components dim dims embedding_dim factors k latent_dim n_components n_factors n_latent n_topics "
    "no_components num_components num_factors ranks R",
    "sweeps": "epochs iterations max_iter max_iters maxiter n_epochs n_iter n_iter_max n_iterations niter num_epochs",
    "tol": "convergence eps epsilon tolerance",
    "seed": "random_seed random_state rng",
    "threads": "cores n_jobs n_threads nthreads num_threads num_workers workers",
    "restarts": "chains ensemble n_init n_restarts n_runs",
    "progress": "callback callbacks progressbar show_progress verbose",
    "method": "algorithm inference optimizer solver",
    "dtype": "precision",
    "labels": "entities names",
    "fixed": "exposure exposures given",
    "checkpoint": "checkpoint_dir",
    "init": "warm_start",
    "prior": "alpha reg regularization",
}
OF_RELATION = {
    "likelihood": "beta_loss distribution family likelihoods loss objective",
    "value": "count counts rating ratings value_column values",
    "columns": "cols column names",
    "indices": "axes dims index",
    "missing": "mask missings",
    "weight": "confidence sample_weight weights",
    "observed": "implicit",
    "duplicates": "aggfunc",
}


def refusing_unknown(
    call: str, meant: Mapping[str, str], elsewhere: Collection[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that says what was meant by an argument it does not have.

    meant: words of other libraries by argument; elsewhere: arguments of `plait.Relation`, where it has none of these.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = list(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*args: P.args, **named: P.kwargs) -> T:
            refuse_unknown(call, named, known, meant, elsewhere)
            return function(*args, **named)

        return checked

    return decorate


def refuse_unknown(
    call: str, named: Iterable[str], known: Collection[str], meant: Mapping[str, str], elsewhere: Collection[str] = ()
) -> None:
    """Refuse the first name that is not known."""
    for name in named:
        if name not in known:
            hint = _hint(name, known, meant, elsewhere)
            raise UnknownArgumentError(f"there is no argument {name!r}.", location=call, actual=name, hint=hint)


def _hint(name: str, known: Collection[str], meant: Mapping[str, str], elsewhere: Collection[str]) -> str:
    if name in elsewhere:
        return f"It is an option of one relation: `plait.Relation(table, {name}=…)`."
    for other, words in meant.items():
        if name in words.split():
            return f"Did you mean {other!r}?"
    told = [other for other in known if other != "self" and not other.startswith("_")]
    return f"{suggestion(name, told)}It has {', '.join(told)}."
