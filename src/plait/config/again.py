"""The data of a run once more, from the config that it remembers."""

import os
from dataclasses import replace
from pathlib import Path

from plait.answer.explain.refit import OtherDataError, same_data
from plait.config.file import Config
from plait.data.bound import Data
from plait.errors import FileLocation, PlaitError, SettingError, StoreError
from plait.run.folder import manifest
from plait.run.record import Fitted


def data_of(fit: Fitted, run: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Data:
    """The data that a run's config names, if they are still what it was fitted to.

    folder: where the config's files are looked up; None: where they were when the run was made.
    """
    config = config_of(run, folder)
    try:
        data = config.model.bind(config.data(), labels=config.labels())
        return same_data(fit, data)
    except OtherDataError:
        raise SettingError(
            "the data are not what the run was fitted to, so that fitting again would compare two things at once.",
            location=FileLocation(config.path),
            hint="Put them back, or fit again with `plait fit`.",
        ) from None
    except PlaitError as error:
        raise error.relocate(config.locate)  # noqa: B904 (the same error)


def config_of(run: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Config:
    """The config that a run remembers."""
    remembered = manifest(Path(run))["extra"].get("config")
    if remembered is None:
        raise StoreError(
            "this run was not made by `plait fit`, so where its data are is unknown.",
            location=FileLocation(Path(run)),
            hint=f"Ask in Python: plait.load({str(run)!r}).explain(…, exact=True, data=data).",
        )
    config = Config.from_dict(remembered)
    if folder is None:
        return config
    return replace(config, path=os.path.join(os.fspath(folder), os.path.basename(config.path)))
