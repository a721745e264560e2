"""Memory estimated by `plait check`, compared with the peak of `plait fit`."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.bench import data, measure

PLAIT = str(Path(sys.executable).with_name("plait"))


def compare(model: str, nonzeros: int, side: int, rank: int, observed: str, accelerate: bool) -> dict[str, Any]:
    """Bytes by both."""
    case = data.digg(rank, observed) if model == "coupled" else data.cp3(nonzeros, side, rank, observed)
    with tempfile.TemporaryDirectory() as folder:
        config = write(case, Path(folder), accelerate)
        checked = subprocess.run(
            [PLAIT, "check", config, "--no-time", "--json"],
            check=True,
            capture_output=True,
            text=True,
            timeout=measure.MAX_CALL_SECONDS,
        )
        fitted = measure.apart([PLAIT, "fit", str(config), "-o", str(Path(folder) / "run")])
    estimated = json.loads(checked.stdout)["peak_bytes"]
    if estimated is None:
        return {"cannot": "no peak is estimated on this system"}
    return {"estimate": estimated, "peak": fitted.peak}


def write(case: data.Case, folder: Path, accelerate: bool) -> Path:
    """The case as files and a config."""
    lines = [f'model = """\n{case.model}\n"""', f"rank = {case.sizes['r']}"]
    for name, cells in case.relations.items():
        cells.table().write_parquet(folder / f"{name}.parquet")
        lines += [
            f"[relations.{name}]",
            f'source = "{name}.parquet"',
            f'observed = "{case.observed}"',
            'value = "value"',
        ]
    lines += ["[fit]", "seed = 0", "accelerate = true" if accelerate else "", f"max_iter = {30 if accelerate else 12}"]
    config = folder / "model.toml"
    config.write_text("\n".join(lines), encoding="utf-8")
    return config
