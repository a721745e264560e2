"""Commands and lines of Python that make a run, its test and its report again."""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from plait.report.subject import Subject


def run_name(subject: Subject) -> str:
    """The run in a command."""
    return shlex.quote(subject.run or "run")


def hiding(subject: Subject) -> str:
    """How a test is made of the data, in Python, which alone draws cells at random."""
    relation = subject.fit.model.relations[0]
    return (
        "import plait\n\n"
        f'parts = plait.hide(data, {relation!r}, fraction=0.1, by="cells", seed=0, model=model)\n'
        f"fit = plait.fit(model, parts.train, {_arguments(subject)})\n"
        f'fit.report("report.html", test=parts.test, relation={relation!r})'
    )


def evaluating(subject: Subject) -> str:
    """How a test in a file is used: hidden from the fit by the config, then measured."""
    relation = subject.fit.model.relations[0]
    config = os.path.basename(subject.config["path"]) if subject.config else "model.toml"
    return "\n".join(
        (
            f'# in {config}, under [relations.{relation}]:  hidden = "test.csv"',
            f"plait fit {shlex.quote(config)} -o {run_name(subject)}",
            f"plait report {run_name(subject)} --test test.csv --relation {shlex.quote(relation)}",
        )
    )


def fitting(subject: Subject) -> str:
    """The commands that made the run, or lines of Python where it was made there."""
    if subject.config is None:
        return (
            "import plait\n\n"
            f'model = """\n{subject.fit.model}\n"""\n'
            f"fit = plait.fit(model, data, {_arguments(subject)})\n"
            f"fit.save({(subject.run or 'run')!r})\n"
            f'fit.report("report.html")'
        )
    name = shlex.quote(os.path.basename(subject.config["path"]))
    changes = " ".join(_options(subject.config.get("changes", {})))
    return (
        f"plait fit {name} -o {run_name(subject)}{f' {changes}' if changes else ''}\nplait report {run_name(subject)}"
    )


def _options(changes: Mapping[str, Any]) -> list[str]:
    """Settings that were said on the command line, as they are typed."""
    found = []
    for name, value in changes.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            found.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, Mapping):
            found += [f"--{flag} {shlex.quote(f'{key}={one}')}" for key, one in value.items()]
        else:
            found.append(f"--{flag} {shlex.quote(str(value))}")
    return found


def _arguments(subject: Subject) -> str:
    """The arguments of `plait.fit` that decide what comes out."""
    fit = subject.fit
    rank: Any = dict(fit.settings["rank"])
    if len(set(rank.values())) == 1:
        rank = next(iter(rank.values()))
    said = {"rank": rank} if rank else {}
    for name, usual in (
        ("method", "vb"),
        ("restarts", 1),
        ("prune", False),
        ("accelerate", False),
        ("bootstrap", False),
    ):
        value = fit.settings.get(name, fit.method if name == "method" else usual)
        if value != usual:
            said[name] = value
    said |= {"sweeps": fit.settings["sweeps"], "tol": fit.settings["tol"], "seed": fit.seed}
    return ", ".join(f"{name}={value!r}" for name, value in said.items())
