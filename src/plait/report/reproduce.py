"""Commands and lines of Python that make a run, its test and its report again.

How the run and this report are made again.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from plait.fitting import validation
from plait.fitting.options import AUTO, DECLARED
from plait.inference.loop import WARM_UP
from plait.rendering.document import Block, Code, Facts, Note
from plait.report.report_data import ReportData
from plait.storage.fitted import Fitted


def run_name(subject: ReportData) -> str:
    """The run in a command."""
    return shlex.quote(subject.run or "run")


def hiding(subject: ReportData) -> str:
    """How a test is made of the data, in Python, which alone draws cells at random."""
    relation = subject.fit.model.relations[0]
    return (
        "import plait\n\n"
        f'parts = plait.train_test_split(data, {relation!r}, fraction=0.1, by="cells", seed=0, model=model)\n'
        f"fit = plait.fit(model, parts.train, {_arguments(subject)})\n"
        f'fit.report("report.html", test=parts.test, relation={relation!r})'
    )


def evaluating(subject: ReportData) -> str:
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


def fitting(subject: ReportData) -> str:
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


def _arguments(subject: ReportData) -> str:
    """The arguments of `plait.fit` that are not what they would be if nothing was said."""
    fit = subject.fit
    kept = {o.name: fit.settings[o.name] for o in DECLARED if o.saved and o.name in fit.settings}
    usual = {o.name: o.default for o in DECLARED} | {"threads": kept.get("threads"), **_resolved(fit)}
    said: dict[str, Any] = {"rank": _same(fit.settings["rank"]), "method": fit.method}
    said |= {
        name: None if value == {} else value for name, value in kept.items() if value != usual[name] and name != "rank"
    }
    said = {name: value for name, value in said.items() if (name, value) not in (("rank", {}), ("method", "vb"))}
    return ", ".join(f"{name}={value!r}" for name, value in {**said, "seed": fit.seed}.items())


def _resolved(fit: Fitted) -> dict[str, Any]:
    """What a fit makes of options that are left out."""
    cold = fit.method != "vb" or fit.settings.get("prune") or any(f.pairs is not None for f in fit.factors.values())
    ties = validation.ties(fit.model, AUTO, fit.method, list(fit.prior))
    return {"warmup": 0 if cold else WARM_UP, "combine": "average", "adapt_prior": ties}


def _same(sizes: Mapping[str, int]) -> Any:
    """One number where all sizes are the same."""
    return next(iter(sizes.values())) if len(set(sizes.values())) == 1 else dict(sizes)


UNKEPT = (
    "data, and prior=, fixed=, entities=, init= where there were any: what plait.fit was given, for a run keeps none."
)

LONGEST = 20_000  # characters of a config that are shown


def again(subject: ReportData) -> Sequence[Block]:
    """The config and the commands; where it was made in Python, its lines."""
    blocks: list[Block] = [Code(fitting(subject))]
    if subject.config is not None:
        text = str(subject.config["text"]).strip()
        blocks += [Note(f"The config, {os.path.basename(subject.config['path'])}:"), Code(text[:LONGEST])]
        if len(text) > LONGEST:
            blocks.append(Note("Its end is left out."))
    else:
        blocks.append(Note(UNKEPT))
    blocks.append(Facts.of({"seed": str(subject.fit.seed), "fingerprint of the data": subject.fit.fingerprint}))
    return blocks
