"""Site of the explorer: the run, entity addresses, search, what-ifs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from plait.analysis.components.component_names import names_of
from plait.analysis.explain.coupling import first_index
from plait.config.config_file import config_of
from plait.errors import PlaitError
from plait.explore.entity_urls import EntityUrls, Index, indices_of
from plait.explore.whatif import Trials
from plait.rendering.document import Action, Ref
from plait.report.report_data import ReportData
from plait.result import Fit


@dataclass(frozen=True, eq=False)
class Site:
    """A run being explored, with a test if any. `token`: of every form; `folder`: of the data."""

    report_data: ReportData
    run: Path
    token: str
    trials: Trials
    folder: Path | None = None

    @property
    def fit(self) -> Fit:
        return self.report_data.fit

    @property
    def header(self) -> Mapping[str, Any]:
        """The manifest."""
        return self.report_data.header

    @cached_property
    def names(self) -> EntityUrls:
        return EntityUrls(self.fit)

    @cached_property
    def indices(self) -> dict[str, Index]:
        return indices_of(self.fit)

    @cached_property
    def no_data(self) -> str:
        """Why what-ifs are unavailable, without reading the data; "" if they are available."""
        try:
            config_of(self.run, self.folder)
        except PlaitError as error:
            return str(error.message)
        return ""

    def relation_ref(self, name: str) -> Ref:
        """A relation as a link to its page."""
        return Ref(name, f"/relation/{quote(name, safe='')}")

    def relation_address(self, relation: str, index: str, row: int) -> str:
        """Links of an entity in a relation."""
        text = self.names.query(index, row)
        return f"/relation/{quote(relation, safe='')}?{urlencode([text])}"

    @property
    def component_indices(self) -> list[str]:
        """Latent indices of factors with entities; the index of rules has none."""
        held = [factor.indices for factor in self.fit.factors.values() if set(factor.indices) - set(self.fit.rank)]
        return [index for index in self.fit.rank if any(index in indices for indices in held)]

    def component_address(self, index: str, number: int) -> str:
        """Page of a component; a single latent index is left out."""
        own = "" if len(self.component_indices) == 1 else f"{quote(index, safe='')}/"
        return f"/component/{own}{number}"

    def component_label(self, index: str, number: int) -> str:
        """Number and name of a component in a table: ``3: cafe 4, library 2 · ann``."""
        number_text = str(number) if len(self.component_indices) == 1 else f"{index} {number}"
        name = names_of(self.fit).get(first_index(self.fit.model, index), {}).get(number)
        return number_text if name is None else f"{number_text}: {name}"

    def action(self, text: str, address: str, fields: list[tuple[str, str]]) -> Action:
        """A button that posts."""
        return Action(text, address, (("token", self.token), *fields))
