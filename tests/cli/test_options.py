"""Options that several commands share."""

import pytest

from doxa.cli.options import memory_limit, parse_size
from doxa.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500 * 2**20), ("2G", 2 * 2**30), ("1.5 gib", 3 * 2**29), ("4096", 4096), ("64k", 2**16), ("1tb", 2**40)],
)
def test_sizes_of_memory(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0", "5 GBs", "1e9"])
def test_other_texts_are_refused(text):
    with pytest.raises(UsageError, match="expected a size such as 500MB"):
        parse_size(text)


def test_no_limit_is_automatic():
    assert memory_limit("") == 0
    assert memory_limit("1K") == 1024
