"""Options that commands share: sizes of memory as people write them."""

import pytest

from doxa.cli.options import size
from doxa.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500MB", 500 * 2**20), ("2G", 2 * 2**30), ("1.5 gib", 3 * 2**29), ("4096", 4096), ("64k", 2**16),
        ("1tb", 2**40), ("", 0),
    ],
)  # fmt: skip
def test_sizes_are_understood(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["much", "-1GB", "0", "5 GBs", "1e9"])
def test_other_words_are_refused(text):
    with pytest.raises(UsageError, match="expected a size such as 500MB"):
        size(text)
