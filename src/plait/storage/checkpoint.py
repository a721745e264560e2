"""Checkpoints: saving a fit while it runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from plait.errors import CheckpointWarning, FileLocation, ParameterError, StorageError, warn_of
from plait.inference.state import Stop
from plait.machine import path_fault
from plait.storage.fitted import Member, Origin
from plait.storage.run_folder import holds_run, manifest, saved_files
from plait.storage.save import save


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit saves itself.

    A fit saves at the start, after each interval and at the end.

    Parameters
    ----------
    folder : path
        Folder of the run, or a file that ends in ``.plait``. `plait.load` reads it;
        ``plait.fit(…, init=folder)`` continues the run after a crash.
    sweeps : int or None, default None
        Save after this number of sweeps.
    seconds : float or None, default 60.0
        Save after this number of seconds.
    overwrite : bool, default False
        Whether to replace a run that the folder already holds.
    extra : dict, default {}
        Further data to store, in the types of JSON.

    Raises
    ------
    plait.errors.ParameterError
        If an interval is wrong.

    Examples
    --------
    >>> checkpoint = plait.Checkpoint("run", sweeps=2)
    >>> fit = plait.fit(model, {"visits": visits}, checkpoint=checkpoint, **quick)
    >>> plait.load("run").objective == fit.objective
    True
    """

    folder: str | PathLike[str]
    sweeps: int | None = None
    seconds: float | None = 60.0
    overwrite: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, PathLike)):
            raise ParameterError.must_be("folder", "a path", self.folder)
        whole = self.sweeps is None or (isinstance(self.sweeps, int) and not isinstance(self.sweeps, bool))
        if not whole or (self.sweeps is not None and self.sweeps < 1):
            raise ParameterError.must_be("sweeps", "an integer of at least 1, or None", self.sweeps)
        if self.seconds is not None and not (isinstance(self.seconds, (int, float)) and self.seconds >= 0):
            raise ParameterError.must_be("seconds", "a number of at least 0, or None", self.seconds)


def as_checkpoint(given: Any) -> Checkpoint | None:
    """The argument `checkpoint` in its full form."""
    if given is None or isinstance(given, Checkpoint):
        return given
    if isinstance(given, (str, PathLike)):
        return Checkpoint(given)
    raise ParameterError.must_be("checkpoint", "a folder or a plait.Checkpoint", given)


class Saver:
    """Saves the members of a fit to the checkpoint's folder; `continued`: the folder it resumed from, if any."""

    def __init__(self, checkpoint: Checkpoint, origin: Origin, continued: str | PathLike[str] | None) -> None:
        self.checkpoint, self.origin = checkpoint, origin
        if fault := path_fault(checkpoint.folder):
            raise StorageError(
                f"this is not a valid path: {fault}.",
                location=FileLocation(fspath(checkpoint.folder)),
                hint="Choose another folder.",
            )
        own = continued is not None and Path(continued).resolve() == Path(checkpoint.folder).resolve()
        if not own and not checkpoint.overwrite and holds_run(checkpoint.folder):
            folder = fspath(checkpoint.folder)
            kind = "file" if Path(folder).is_file() else "folder"
            raise StorageError(
                f"this {kind} already contains a run.",
                location=FileLocation(folder),
                hint=(
                    f"Continue it with `init={folder!r}`, choose another {kind}, or set "
                    f"`checkpoint=plait.Checkpoint({folder!r}, overwrite=True)`."
                ),
            )
        saved_files(Path(checkpoint.folder))  # refuse other files before the fit
        # A run resumed in Python keeps what the command line stored with it.
        self.extra = checkpoint.extra or (manifest(checkpoint.folder)["extra"] if own else {})
        self._last: tuple[int, float] | None = None  # sweeps and time of the last save
        self._sweeps = 0
        self._failing = False  # whether the last save failed

    def keep(self, members: Callable[[], Sequence[Member]]) -> None:
        """Save if it is time; called after every sweep. `members`: states to save."""
        self._sweeps += 1
        if self._last is None:  # the first save shows whether the folder can be written
            self._save(members(), None)
        else:
            sweeps, seconds = self.checkpoint.sweeps, self.checkpoint.seconds
            over = sweeps is not None and self._sweeps - self._last[0] >= sweeps
            if not over and not (seconds is not None and time.monotonic() - self._last[1] >= seconds):
                return
            self.finish(members(), None)
        self._last = (self._sweeps, time.monotonic())

    def finish(self, members: Sequence[Member], stop: Stop | None) -> None:
        """Save; a failing disk does not stop the fit: one warning until a save succeeds."""
        try:
            self._save(members, stop)
        except (StorageError, OSError) as error:
            if not self._failing:
                warn_of([CheckpointWarning(f"checkpoint not saved: {error}")])
            self._failing = True
        else:
            self._failing = False

    def _save(self, members: Sequence[Member], stop: Stop | None) -> None:
        save(self.checkpoint.folder, self.origin, members, stop, replace=True, extra=self.extra)
