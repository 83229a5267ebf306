"""HTML: pages stand alone, and names from the data cannot break them."""

import json
import re
import subprocess
import sys

import numpy as np
import polars as pl

from doxa.curation.explain import explain
from doxa.curation.map import Map
from doxa.data.results import Result
from doxa.data.vocabulary import Vocabulary
from doxa.render.pages import explanation_page, map_page, result_html
from tests.worlds import random_model

EVIL = "</script><script>alert('x')</script>"


def odd_map(title="@POINTS@ <b>"):
    places = np.array([[0.0, 0.0], [0.5, 0.25], [1.0, 1.0]])
    return Map(title, (EVIL, "naïve 京", '"quoted"'), places, np.array([0, 1, 11]), ("<i>", *map(str, range(11))))


def test_a_map_page_stands_alone_and_holds_every_name():
    page = map_page(odd_map())
    assert page.count("</script>") == 1
    assert "@POINTS@ &lt;b&gt;" in page
    assert "&lt;i&gt;" in page
    assert re.findall(r'class="group">.*?</span>(.*?)</span>', page) == ["&lt;i&gt;", "0", "10"]  # groups with members
    assert page.index('id="bar"') < page.index('id="map"')
    assert "position: fixed; top" not in page  # nothing lies over the canvas
    assert not re.search(r'(src|href)="', page)
    points = json.loads(re.search(r"const points = (\[.*\]), colors", page)[1])
    assert [point[0] for point in points] == list(odd_map().names)
    assert points[1][1:] == [0.5, 0.25, 1]


def test_an_explanation_page_escapes_names_and_words():
    model, _ = random_model(0)
    entities = model.vocabularies.entities
    names = pl.Series([EVIL if name == "e2" else name for name in entities.names])
    object.__setattr__(model.vocabularies, "entities", Vocabulary(names, "entity"))
    page = explanation_page(explain(model, EVIL, "r1", "e4", "w1 <b>", influences=2))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "w1 &lt;b&gt;" in page
    for part in ("The three terms of Eq. 1", "Pr(r|h,t,m)", "F(r, m) =", "The best other answers", "influence", "<svg"):
        assert part in page
    assert not re.search(r'(src|href)="', page)
    assert page.count("<table>") == page.count("</table>")


def test_a_result_in_a_notebook_shows_its_first_rows_escaped():
    frame = pl.DataFrame({"name <b>": [EVIL] * 30, "credence": [0.5] * 30})
    page = result_html(f"Answer({EVIL})", frame)
    assert "<script" not in page
    assert "name <b>" not in page
    assert page.count("&lt;script&gt;") == 21

    class Named(Result):
        def to_frame(self):
            return frame

        def __repr__(self):
            return EVIL

    assert "<script" not in Named()._repr_html_()


def test_drawing_never_loads_torch():
    program = "import sys, doxa.render.pages, doxa.render.terminal, doxa.cli; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
