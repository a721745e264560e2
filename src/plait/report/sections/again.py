"""How the run and this report are made again."""

import os
from collections.abc import Sequence

from plait.report.commands import fitting
from plait.report.subject import Subject
from plait.show.document import Block, Code, Facts, Note

UNKEPT = (
    "data, and prior=, fixed=, labels=, init= where there were any: what was given to plait.fit, for a run keeps none."
)

LONGEST = 20_000  # characters of a config that are shown


def again(subject: Subject) -> Sequence[Block]:
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
