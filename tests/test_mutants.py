"""The mutants are up to date: each text stands once in its file, and each named test exists."""

import pytest

from tests.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code_and_names_its_test(mutant):
    assert (ROOT / "doxa" / mutant.path).read_text(encoding="utf-8").count(mutant.before) == 1
    path, test = mutant.test.split("::")
    assert f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert mutant.before != mutant.after
