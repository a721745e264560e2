"""What all pages are made from: the run, names, search, what-ifs.

What a page was asked for, and what it answers with: a view, or why not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from plait.config.config_file import config_of
from plait.errors import PlaitError
from plait.explore.entity_urls import EntityUrls, Index, indices_of
from plait.explore.whatif import Trials
from plait.rendering.document import Action, Ref
from plait.result import Fit


@dataclass(frozen=True, eq=False)
class Site:
    """A run that is explored. header: its manifest; token: of every form; folder: where data were said to be."""

    fit: Fit
    run: Path
    header: Mapping[str, Any]
    token: str
    trials: Trials
    folder: Path | None = None

    @cached_property
    def names(self) -> EntityUrls:
        """Entities and their addresses."""
        return EntityUrls(self.fit)

    @cached_property
    def indices(self) -> dict[str, Index]:
        """What search looks through."""
        return indices_of(self.fit)

    @cached_property
    def no_data(self) -> str:
        """Why what-ifs cannot be asked for, as far as it is known without reading the data; "" if they can."""
        try:
            config_of(self.run, self.folder)
        except PlaitError as error:
            return str(error.message)
        return ""

    def relation_ref(self, name: str) -> Ref:
        """A relation as a link to its page."""
        return Ref(name, f"/relation/{quote(name, safe='')}")

    def relation_address(self, relation: str, index: str, row: int) -> str:
        """The links of an entity in a relation."""
        text = self.names.query(index, row)
        return f"/relation/{quote(relation, safe='')}?{urlencode([text])}"

    def component_address(self, index: str, number: int) -> str:
        """The page of a component; the only latent index goes without saying."""
        own = "" if len(self.fit.rank) == 1 else f"{quote(index, safe='')}/"
        return f"/component/{own}{number}"

    def action(self, text: str, address: str, fields: list[tuple[str, str]]) -> Action:
        """A button that posts."""
        return Action(text, address, (("token", self.token), *fields))
