"""Text for terminals: control characters in names become visible, so that no name can steer a terminal."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters other than TAB and line feed, changes of writing direction, and halves of characters."""


def visible(text: str) -> str:
    """The text with control characters as escapes such as \\x1b."""
    return CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def json_text(value: Any) -> str:
    """A line of JSON without control characters; in ASCII where standard output cannot show more."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8")
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json_text(value))
