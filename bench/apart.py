"""One call in a process of its own, so that its peak memory is known: `python -m bench.apart module:function '{…}'`."""

import importlib
import json
import os
import sys

from bench import measure


def main(function: str, arguments: str) -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what others print is not the answer
    module, name = function.split(":")
    found = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    print(json.dumps({"peak": measure.peak()} | found), file=answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
