"""CSV injection: fields that a spreadsheet would run as formulas are written behind an apostrophe (OWASP).

Escaping puts one apostrophe before a field that begins with any number of apostrophes and one of ``FIRST``; reading
takes one off. So every name survives writing and reading.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

FIRST = r"[=+\-@\t\r\n＝＋－＠]"  # the full-width signs as well: spreadsheets of some locales take them for the others
FORMULA, ESCAPED = f"^'*{FIRST}", f"^'+{FIRST}"


def escape_formulas(table: "pl.DataFrame") -> "pl.DataFrame":
    """The table with formulas in its columns of text, and in their names, escaped; numbers stay as they are."""
    import polars as pl

    texts = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    table = table.with_columns(pl.when(texts.str.contains(FORMULA)).then("'" + texts).otherwise(texts).name.keep())
    return table.rename({name: f"'{name}" for name in table.columns if re.match(FORMULA, name)})


def unescaped(field: "pl.Expr") -> "pl.Expr":
    """A field of text as it was before it was escaped."""
    import polars as pl

    # Polars evaluates the second branch only where the first condition holds somewhere, and it hardly ever does.
    plain = pl.when(field.str.contains(ESCAPED)).then(field.str.slice(1)).otherwise(field)
    return pl.when(field.str.starts_with("'")).then(plain).otherwise(field)


def unescaped_names(names: list[str]) -> list[str]:
    """Names of columns as they were before they were escaped."""
    return [name[1:] if re.match(ESCAPED, name) else name for name in names]
