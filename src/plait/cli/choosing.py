"""The command choose: settings compared in one table, and the best one's run."""

from pathlib import Path
from typing import Annotated, Any

import typer

import plait
from plait.choosing import Choice
from plait.cli.fitting import refuse_other_run, warnings_on_stderr
from plait.cli.options import ConfigFile, Force, Json, named_path
from plait.cli.output import emit, out, working
from plait.config import Config, read_config
from plait.errors import relocating


def choose(
    config: ConfigFile,
    rank: Annotated[str | None, typer.Option(metavar="N,N,…", help="Ranks to compare; auto and bound too.")] = None,
    adapt: Annotated[str | None, typer.Option(metavar="WORD,…", help="Tyings of priors to compare.")] = None,
    likelihood: Annotated[
        str | None, typer.Option(metavar="WORD,…", help="Likelihoods of the relation to compare.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="What is compared: hidden (links put aside) or bound.")] = None,
    relation: Annotated[
        str | None, typer.Option(help="The relation whose links are put aside; else the first.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many fits of every setting; 3 unless told.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of what is put aside, and of the fits.")] = None,
    run: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="RUN", parser=named_path, help="The folder to save the best run in."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare settings in one table, and fit the best.

    What to compare stands in [choose] of the config, or in options, which win: every combination is fitted. By links
    put aside, or, for ranks under one tying and likelihood, by the bound.

    \b
    Examples:
      plait choose model.toml --rank 5,10,20
      plait choose model.toml --rank 2,3,4,5 --by bound -o run
      plait choose model.toml --rank auto --adapt factor,component --relation visits --json
    """
    given = {"rank": _ranks(rank), "adapt": _words(adapt), "likelihood": _words(likelihood), "by": by,
             "relation": relation, "seeds": seeds}  # fmt: skip
    found = read_config(config).changed(seed=seed)
    if run is not None:
        refuse_other_run(run, force)
    with warnings_on_stderr(found, json):
        choice = _chosen(found, {word: value for word, value in given.items() if value is not None})
    if run is not None:
        choice.fit.save(run, replace=force, extra={"config": _remembered(found, choice).to_dict()})
    if json:
        emit(choice.to_dict() | ({} if run is None else {"run": str(run)}))
        return
    out(str(choice))
    if run is not None:
        out(f"\nsaved  {run}")


def _chosen(config: "Config", given: dict[str, Any]) -> "Choice":
    with relocating(config.changed(**given).locate):
        with working("reading"):
            data = config.model.bind(config.data(), labels=config.labels())
            fixed, titles = config.fixed(), config.titles(data.labels)
        settings = config.settings | config.compared | given
        return plait.choose(config.model, data, fixed=fixed or None, titles=titles, **settings)


def _remembered(config: "Config", choice: "Choice") -> "Config":
    """The config of the run that is saved: with the settings that were chosen."""
    words = {"rank": choice.fit.settings["rank"], "adapt": choice.best["adapt"], "seed": choice.fit.seed}
    return config.changed(**words, restarts=len(choice.fit.members))


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]


def _ranks(text: str | None) -> list[int | str] | None:
    words = _words(text)
    return None if words is None else [int(word) if word.isdecimal() else word for word in words]
