"""Commands and Python code that reproduce a run, its test and its report."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plait.fitting import validation
from plait.fitting.options import AUTO, DECLARED
from plait.inference.loop import WARM_UP
from plait.rendering.document import Block, Code, Details, Facts, Note
from plait.report.report_data import ReportData
from plait.storage.fitted import Fitted


def run_name(report_data: ReportData) -> str:
    """The run in a command."""
    return shlex.quote(report_data.run or "run")


def testing(report_data: ReportData) -> str:
    """Commands that hold links out, fit the rest and report on the test; Python code for a run made there."""
    relation = report_data.fit.model.relations[0]
    if report_data.config is None:
        return (
            "import plait\n\n"
            f"split = plait.train_test_split(data, {relation!r}, fraction=0.1, seed=0, model=model)\n"
            f"fit = plait.fit(model, split.train, {_arguments(report_data)})\n"
            f'fit.report("report.html", test=split.test, relation={relation!r})'
        )
    config = _config_name(report_data)
    folder = "split-2" if Path(config).parent.name == "split" else "split"  # a config made by a split stays whole
    return (
        f"plait train-test-split {config} -o {folder} --relation {relation} --fraction 0.1 --seed 0\n"
        f"plait fit {folder}/train.toml -o {folder}/run{_changes(report_data)}\n"
        f"plait report {folder}/run --test {folder}/test.csv --relation {relation}"
    )


def fitting(report_data: ReportData) -> str:
    """Commands that made the run, or Python code if it was made there."""
    metrics = report_data.metrics
    if report_data.config is None:
        test = "" if metrics is None else f", test=test, relation={metrics.relation!r}"
        return (
            "import plait\n\n"
            f'model = """\n{_model_without_evidence(report_data.fit)}\n"""\n'
            f"fit = plait.fit(model, data, {_arguments(report_data)})\n"
            f"fit.save({(report_data.run or 'run')!r})\n"
            f'fit.report("report.html"{test})'
        )
    tested = {} if metrics is None else {"test": report_data.test, "relation": metrics.relation, **report_data.reading}
    words = _options({name: word for name, word in tested.items() if word is not None})
    return (
        f"plait fit {_config_name(report_data)} -o {run_name(report_data)}{_changes(report_data)}\n"
        f"{' '.join(['plait report', run_name(report_data), *words])}"
    )


def _config_name(report_data: ReportData) -> str:
    """The config in a command: its path from the working directory, without folders above it."""
    path = report_data.config["path"] if report_data.config else "model.toml"
    here = Path.cwd()
    inside = Path(path).is_relative_to(here)
    return shlex.quote(Path(path).relative_to(here).as_posix() if inside else os.path.basename(path))


def _changes(report_data: ReportData) -> str:
    """Options of the command that made the run, with a blank before each."""
    return "".join(
        f" {option}" for option in _options(report_data.config.get("changes", {}) if report_data.config else {})
    )


def _model_without_evidence(fit: Fitted) -> str:
    """The model without the terms that `evidence` added."""
    added = set(fit.settings.get("evidence_terms", {})) if fit.settings.get("evidence") else set()
    lines = [
        str(replace(equation, terms=tuple(term for term in equation.terms if not added & set(term.factors))))
        for equation in fit.model.equations
    ]
    return "\n".join([*lines, *str(fit.model).split("\n")[len(lines) :]])


def _options(changes: Mapping[str, Any]) -> list[str]:
    """Settings of the command line, as typed."""
    options = []
    for name, value in changes.items():
        flag = name.replace("_", "-")
        if name == "quoted":
            options.append("--unquoted")
        elif isinstance(value, bool):
            options.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list):
            options.append(f"--{flag} {shlex.quote(','.join(value))}")
        elif isinstance(value, Mapping):
            options += [f"--{flag} {shlex.quote(f'{key}={one}')}" for key, one in value.items()]
        else:
            options.append(f"--{flag} {shlex.quote(str(value))}")
    return options


def _arguments(report_data: ReportData) -> str:
    """Arguments of `plait.fit` that differ from their defaults."""
    fit = report_data.fit
    kept = {o.name: fit.settings[o.name] for o in DECLARED if o.saved and o.name in fit.settings}
    usual = {o.name: o.default for o in DECLARED} | {"threads": kept.get("threads"), **_resolved(fit)}
    said: dict[str, Any] = {"rank": _same(fit.settings["rank"]), "method": fit.method}
    said |= {
        name: None if value == {} else value for name, value in kept.items() if value != usual[name] and name != "rank"
    }
    said = {name: value for name, value in said.items() if (name, value) not in (("rank", {}), ("method", "vb"))}
    return ", ".join(f"{name}={value!r}" for name, value in {**said, "seed": fit.seed}.items())


def _resolved(fit: Fitted) -> dict[str, Any]:
    """Values of options that were left out."""
    cold = fit.method != "vb" or fit.settings.get("prune") or any(f.pairs is not None for f in fit.factors.values())
    ties = validation.ties(fit.model, AUTO, fit.method, list(fit.prior))
    return {"warmup": 0 if cold else WARM_UP, "combine": "average", "adapt_prior": ties}


def _same(sizes: Mapping[str, int]) -> Any:
    """One number where all sizes are equal."""
    return next(iter(sizes.values())) if len(set(sizes.values())) == 1 else dict(sizes)


UNKEPT = "A run does not store its inputs: `data`, `test`, `prior`, `fixed`, `entities` and `init`."

MAX_CONFIG_CHARACTERS = 20_000  # shown of a config


def again(report_data: ReportData) -> Sequence[Block]:
    """The config and the commands, or Python code."""
    blocks: list[Block] = [Code(fitting(report_data))]
    if report_data.config is not None:
        text = str(report_data.config["text"]).strip()
        config: list[Block] = [Code(text[:MAX_CONFIG_CHARACTERS])]
        if len(text) > MAX_CONFIG_CHARACTERS:
            config.append(Note("The end of the config is not shown."))
        blocks.append(Details(f"The config, {os.path.basename(report_data.config['path'])}", config))
    else:
        blocks.append(Note(UNKEPT))
    blocks.append(Facts.of({"seed": str(report_data.fit.seed), "fingerprint of the data": report_data.fit.fingerprint}))
    return blocks
