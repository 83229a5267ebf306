"""Maps: who is on them, where, and that the page stands alone."""

import re

import numpy as np
import pytest

from doxa.curation.map import draw_map, map_page
from doxa.errors import DoxaError, UsageError
from doxa.render.plots import entity_map
from tests.worlds import random_model


def test_entities_of_the_relation_in_the_unit_square(tmp_path):
    model, _ = random_model(0, entities=40, facts=150)
    found = draw_map(model, ["r1"])
    facts = model.train[model.train[:, 1] == 1]
    assert set(found.names) == {f"e{x}" for x in facts[:, [0, 2]].ravel()}
    assert found.places.min() == 0
    assert found.places.max() == 1
    for name, group in zip(found.names, found.group, strict=True):
        entity = int(name[1:])
        assert (
            found.groups[group]
            == {(True, False): "head", (False, True): "tail", (True, True): "both"}[
                (entity in facts[:, 0], entity in facts[:, 2])
            ]
        )
    again = draw_map(model, ["r1"])
    assert np.allclose(again.places, found.places)
    entity_map(found, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_two_main_axes_and_groups_by_likeness():
    model, _ = random_model(1, entities=40, facts=150)
    found = draw_map(model, most=20, layout="pca", groups=3)
    assert len(found) == 20
    assert len(found.groups) == 3
    assert set(found.group.tolist()) == {0, 1, 2}
    with pytest.raises(UsageError, match="layout"):
        draw_map(model, layout="globe")
    few, _ = random_model(0, facts=1)
    with pytest.raises(DoxaError, match="at least 3"):
        draw_map(few)


def test_the_page_stands_alone_and_names_cannot_break_it():
    model, _ = random_model(1)
    found = draw_map(model, layout="pca")
    odd = type(found)("<b>", ("</script><script>", *found.names[1:]), found.places, found.group, found.groups)
    page = map_page(odd)
    assert page.count("</script>") == 1
    assert "&lt;b&gt;" in page
    assert not re.search(r'(src|href)="', page)
    assert "@" not in page
