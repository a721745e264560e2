"""The data of the experiments: read where they are, drawn in the same shape where they are not."""

from pathlib import Path

from plait.errors import ParameterError

FOLDERS = ("uclaf", "lastfm", "digg", "digg_replies")


def check(data: Path) -> None:
    """Refuse a path where no experiment would find anything."""
    if not data.exists():
        raise ParameterError(
            f"--data: there is no {str(data)!r}.\nName the folder of the data, or leave the option out."
        )
    files = [data] if data.is_file() else list(data.iterdir())
    readable = any(path.suffix in (".mat", ".m", ".txt", ".csv", ".tsv", ".dat") for path in files if path.is_file())
    if not readable and not any((data / folder).is_dir() for folder in FOLDERS):
        wanted = ", ".join(f"{folder}/" for folder in FOLDERS)
        raise ParameterError(
            f"--data: {str(data)!r} has none of {wanted}, and no data of its own.\n"
            f"Name the folder that has them, or leave the option out: stand-ins are drawn then."
        )
