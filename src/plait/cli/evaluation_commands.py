"""Commands of evaluation: evaluate, train-test-split, grid-search."""

import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import plait
from plait.cli.command_options import (
    ConfigFile,
    Force,
    Json,
    RelationName,
    RunFolder,
    Score,
    Value,
    named_path,
    read_options,
)
from plait.cli.fit_commands import refuse_other_run
from plait.cli.link_commands import locating, read_cells, with_values
from plait.cli.output import emit, out, put, working
from plait.cli.program import warnings_on_stderr
from plait.config import Config, read_config
from plait.config.train_config import TEST, TRAIN, write_split
from plait.errors import FileLocation, ParameterError, StorageError, relocating, suggestion
from plait.model_selection.grid import GridSearch
from plait.storage.run_folder import holds_run, manifest


@read_options
def evaluate(
    run: RunFolder,
    relation: RelationName,
    test: Annotated[
        Path,
        typer.Argument(
            metavar="TEST", help="Test links: a table with one column per index; a column of values is optional."
        ),
    ],
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="INDEX", help="Rank the entities of this index; repeatable.")
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", metavar="N", min=1, help="Cut-off of recall@k, NDCG@k, …; requires --target; repeatable."),
    ] = None,
    known: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Further known links, excluded from the ranking; repeatable."),
    ] = None,
    score: Score = "mean",
    value: Value = None,
    negatives: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Number of negatives per test link.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed of the negatives.")] = 0,
    every: Annotated[bool, typer.Option("--all", help="Show every metric, and the bins of the calibration.")] = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Evaluate a run on held-out links.

    \b
    Examples:
      plait evaluate run visits test.csv
      plait evaluate run visits test.csv --target place -k 10 --known valid.csv
      plait evaluate run visits test.csv --target place --target user --json
    """
    fit = plait.load(run)
    cells = read_cells(fit, run, relation, str(test), options)
    others = [read_cells(fit, run, relation, str(path), options) for path in known or ()]
    with locating({"test": cells, "known": others}), warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.errors.LeakWarning)  # the notes among the figures say it
        metrics = plait.evaluate(
            fit, relation, with_values(fit, relation, cells, value), score=score, target=target or None, k=k or None,
            negatives=negatives, known=[with_values(fit, relation, own, value) for own in others], seed=seed,
        )  # fmt: skip
    put(metrics.describe(every=every), as_json=json)


@read_options
def calibrate(
    run: RunFolder,
    relation: RelationName,
    held_out: Annotated[
        Path,
        typer.Argument(metavar="HELD_OUT", help="Held-out links: a table as for `plait evaluate`, but another one."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="RUN", parser=named_path, help="Folder, or .plait file, to save the new run in."
        ),
    ],
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="counts|NAME=TABLE",
            help="Features of cells: counts of agreeing links, or counts and a table NAME=TABLE; repeatable.",
        ),
    ] = None,
    zeros: Annotated[
        str | None,
        typer.Option(metavar="all|sample", help="Whether the zeros of the table are all zeros or a random sample."),
    ] = None,
    value: Value = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Random seed of drawn zeros and of the cross-validation.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run.")] = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Calibrate the probabilities of a run on held-out links.

    The new run answers with calibrated probabilities, in the same order unless there are features. They stay as they
    are unless cross-validation prefers the calibration. Evaluate on other links afterwards. Without zeros in the table,
    zeros are drawn.

    \b
    Examples:
      plait calibrate run visits valid.csv -o calibrated
      plait calibrate run visits valid.csv --features counts -o calibrated
      plait calibrate run visits valid.csv --zeros sample -o run --force
    """
    named = _named_tables(features)
    if not (force and output == run):
        refuse_other_run(output, force)
    fit = plait.load(run)
    cells = read_cells(fit, run, relation, str(held_out), options)
    with locating({"test": cells, "held_out": cells}), working("calibrating"):
        held = with_values(fit, relation, cells, value)
        calibrated = fit.calibrate(relation, held, features=named, zeros=zeros, seed=seed)
    calibrated.save(output, replace=holds_run(output), extra=manifest(run)["extra"])
    own = calibrated.calibration[relation]
    if json:
        emit({"run": str(output), "relation": relation, **own.to_dict()})
        return
    out(f"{relation}: {own}.")
    if named and not own.features:
        out("The features are left out: cross-validation does not prefer them.")
    out(f"Cross-validated gain: {own.gain:.4f} ± {own.gain_error:.4f} of log-likelihood per link.")
    out(f"Saved in {output}.")


def _named_tables(features: Sequence[str] | None) -> Any:
    """`features` of `Fit.calibrate` from the words of the command line."""
    if not features or list(features) == ["counts"]:
        return "counts" if features else None
    tables = {}
    for words in features:
        name, equals, path = words.partition("=")
        if not (name and equals and path):
            raise ParameterError.must_be(
                "features",
                "'counts' or NAME=TABLE",
                words,
                hint=f"{suggestion(words, ['counts'])}A table is `--features path=paths.csv`.",
            )
        tables[name] = plait.read(path)
    return tables


def grid_search(
    config: ConfigFile,
    rank: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Ranks to compare; auto and elbo are allowed.")
    ] = None,
    adapt_prior: Annotated[
        str | None, typer.Option(metavar="WORD,…", help="Values of `adapt_prior` to compare.")
    ] = None,
    likelihood: Annotated[
        str | None, typer.Option(metavar="WORD,…", help="Likelihoods of the relation to compare.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="hidden|elbo", help="Criterion: held-out links, or the ELBO.")
    ] = None,
    relation: Annotated[
        str | None, typer.Option(metavar="RELATION", help="Relation to hold links out of; by default the first.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of fits per setting; by default 3.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Random seed of the split and of the fits.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="RUN", parser=named_path, help="Folder to save the best run in."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare settings and fit the best one.

    Fits every combination of the values in [grid_search] of the config; options override the config. Compares by
    held-out links, or by the ELBO if only the rank differs.

    \b
    Examples:
      plait grid-search model.toml --rank 5,10,20
      plait grid-search model.toml --rank 2,3,4,5 --by elbo -o run
      plait grid-search model.toml --rank auto --adapt-prior factor,component --relation visits --json
    """
    given = {"rank": _ranks(rank), "adapt_prior": _words(adapt_prior), "likelihood": _words(likelihood), "by": by,
             "relation": relation, "seeds": seeds}  # fmt: skip
    configuration = read_config(config).changed(seed=seed)
    if run is not None:
        refuse_other_run(run, force)
    with warnings_on_stderr(configuration.locate, json):
        choice = _run_grid_search(configuration, {word: value for word, value in given.items() if value is not None})
    if run is not None:
        choice.fit.save(run, replace=force, extra={"config": _remembered(configuration, choice).to_dict()})
    if json:
        emit(choice.to_dict() | ({} if run is None else {"run": str(run)}))
        return
    out(str(choice))
    if run is not None:
        out(f"\nsaved  {run}")


def _run_grid_search(config: "Config", given: dict[str, Any]) -> "GridSearch":
    with relocating(config.changed(**given).locate):
        with working("reading"):
            data = config.model.bind(config.data(), entities=config.entities())
            fixed, titles = config.fixed(), config.titles(data.entities)
        settings = config.settings | config.compared | given
        return plait.grid_search(config.model, data, fixed=fixed or None, titles=titles, **settings)


def _remembered(config: "Config", choice: "GridSearch") -> "Config":
    """Config of the saved run, with the chosen settings."""
    words = {"rank": choice.fit.settings["rank"], "adapt_prior": choice.best["adapt_prior"], "seed": choice.fit.seed}
    return config.changed(**words, restarts=len(choice.fit.members))


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]


def _ranks(text: str | None) -> list[int | str] | None:
    words = _words(text)
    return None if words is None else [int(word) if word.isdecimal() else word for word in words]


def train_test_split(
    config: ConfigFile,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", parser=named_path, help="Folder for train.toml, test.csv and tables."
        ),
    ],
    relation: Annotated[
        str | None,
        typer.Option(metavar="RELATION", help="Relation to hold links out of; required if there are several."),
    ] = None,
    fraction: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Fraction to hold out, between 0 and 1.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="cells, links, thinned_links, time, index=USER, pair=USER,PLACE or leave_last_out=USER.",
        ),
    ] = "cells",
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the time of each row.")] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Links per entity for leave_last_out; 1 by default.")
    ] = None,
    leakage: Annotated[
        str, typer.Option(metavar="warn|remove|ignore", help="What to do about leaking links.")
    ] = "warn",
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Split the data of a config into training and test links.

    Writes train.toml (a config for `plait fit`), test.csv (a table for `plait evaluate`) and the training tables into
    FOLDER.

    \b
    Examples:
      plait train-test-split model.toml -o split --fraction 0.2 --seed 0
      plait train-test-split model.toml -o split --relation visits --by links --fraction 0.1
      plait train-test-split model.toml -o split --by leave_last_out=user --time date --leakage remove
    """
    if not force and (output / TRAIN).exists():
        raise StorageError(
            "this folder already contains a split.", location=FileLocation(output), hint="Replace it with --force."
        )
    configuration = read_config(config)
    way, _, indices = by.partition("=")
    if time is not None:  # a fit ignores the column of times, a split needs it
        for table in configuration.tables["relations"].values():
            table["ignore_columns"] = [column for column in table.get("ignore_columns", []) if column != time]
    with relocating(configuration.locate), warnings_on_stderr(configuration.locate, json):
        with working("reading"):
            data: dict[str, Any] = dict(configuration.data())
        split = plait.train_test_split(
            data, relation or (next(iter(data)) if len(data) == 1 else None), fraction=fraction, time=time, count=count,
            by=(way, *(index.strip() for index in indices.split(","))) if indices else by, seed=seed,
            model=configuration.model, leakage=cast(Any, leakage), entities=configuration.entities(),
        )  # fmt: skip
        write_split(configuration, data, split, output)
    train, test = output / TRAIN, output / TEST
    if json:
        facts = {"relation": split.relation, "seed": split.seed, "links": split.links, "zeros": split.zeros}
        emit({"train": str(train), "test": str(test), **facts})
        return
    out(str(split))
    run = shlex.quote(str(output / "run"))
    out(f"\nNext:\n  plait fit {shlex.quote(str(train))} -o {run}")
    others = {*(split.by if isinstance(split.by, tuple) else ()), time}
    ordered = configuration.model.ordered
    ranked = [i for i in split.indices if i not in others and configuration.model.axis(i) not in ordered]
    target = f" --target {ranked[-1]}" if ranked else ""
    out(f"  plait evaluate {run} {split.relation} {shlex.quote(str(test))}{target}")
