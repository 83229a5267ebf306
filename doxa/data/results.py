"""What every result of the library offers: a frame, a dictionary, a short text and an HTML face in notebooks."""

from __future__ import annotations

from typing import Any

import polars as pl


class Result:
    """A result: `to_frame()` for tables, `as_dict()` for JSON, `repr` for one line, HTML in notebooks."""

    def to_frame(self) -> pl.DataFrame:
        """The result as a polars frame, one row per item."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data that JSON can hold."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        from doxa.render.pages import result_html

        return result_html(repr(self), self.to_frame())
