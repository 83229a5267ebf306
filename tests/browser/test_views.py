"""Every view: it draws, it fits, it is accessible, and hostile names stay names."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest

from tests.browser.conftest import HOSTILE, LONG, NAMES, PATH, RIGHT_TO_LEFT, SCRIPT, faults_of_access, settled

VIEWS = {
    "start": "#/ask",
    "ask": "#/ask?head=0%2C0&relation=right&why=1%2C0",
    "judge": "#/ask?head=0%2C0&relation=right&tail=5%2C5",
    "entities": "#/entity",
    "entity": "#/entity?name=3%2C1",
    "review": "#/review",
    "suspects": "#/suspects",
    "map": "#/map?layout=pca",
    "model": "#/model?compare=1%2C2",
}


@pytest.mark.parametrize("style", ["wide light", "narrow dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_view_fits_and_is_accessible(site, visit, view, style):
    page = visit(site, VIEWS[view], narrow="narrow" in style, dark="dark" in style)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert not faults_of_access(page)


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "image", "quotes", "right-to-left", "long", "path", "link"])
def test_hostile_names_are_text(site, visit, name):
    from playwright.sync_api import expect

    page = visit(site)
    page.evaluate("name => { location.hash = '#/entity?' + new URLSearchParams({name}) }", name)
    expect(page.locator("h1 bdi")).to_have_text(name, use_inner_text=False)
    settled(page)
    assert page.locator("main script, main img, main b, main i:not([aria-hidden])").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    known = page.locator(".known-facts a.entity").first
    known.click()
    settled(page)
    page.go_back()
    expect(page.locator("h1 bdi")).to_have_text(name, use_inner_text=False)
    page.evaluate("head => { location.hash = '#/ask?' + new URLSearchParams({head, relation: 'right'}) }", name)
    expect(page.locator(".result h2 .entity").first).to_have_text(name, use_inner_text=False)
    settled(page)
    page.locator(".answers .row").first.click()
    expect(page.locator(".why .verdict")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Head", exact=True)).to_have_value(name)


def test_hostile_names_in_suggestions_graph_and_map(site, visit):
    from playwright.sync_api import expect

    page = visit(site, "#/ask")
    page.get_by_label("Head", exact=True).press_sequentially("<scr")
    expect(page.get_by_role("option").first).to_contain_text(SCRIPT)
    page.evaluate("location.hash = '#/entity?name=2%2C1'")
    expect(page.locator(".graph .node-name").filter(has_text="<script>").first).to_be_visible()
    page.evaluate("location.hash = '#/map?layout=pca'")
    settled(page)
    expect(page.locator(".map-side a").filter(has_text=RIGHT_TO_LEFT)).to_be_visible()
    assert page.locator(".map-side a").filter(has_text=LONG).count() == 1
    assert page.locator("main img").count() == 0


def test_every_name_is_somewhere(site, visit):
    """The list of the map has all 36 entities, the renamed ones too."""
    page = visit(site, "#/map?layout=pca")
    settled(page)
    page.wait_for_timeout(400)
    names = set(page.locator(".map-side a.entity").all_text_contents())
    assert len(names) == 30
    assert names & set(NAMES.values())


def test_ask_by_keyboard(site, visit):
    from playwright.sync_api import expect

    page = visit(site)
    head = page.get_by_label("Head", exact=True)
    expect(head).to_be_focused()
    page.keyboard.type("0,0")
    expect(page.get_by_role("option").first).to_have_text("0,02")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(head).to_have_value("0,0")
    page.keyboard.press("Tab")
    page.keyboard.type("rihgt")
    expect(page.get_by_role("option").first).to_contain_text("right")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    rows = page.locator(".answers > li")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("1,0")
    assert "head=0%2C0&relation=right" in page.url
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".reason .verdict")).to_contain_text("Credence")
    assert "why=1%2C0" in page.url
    page.reload()
    expect(page.locator(".reason .verdict")).to_contain_text("Credence")
    page.locator(".answers > li").nth(1).locator(".name a").click()
    page.wait_for_url("**/#/entity?name=*")
    page.go_back()
    expect(page.locator(".reason .verdict")).to_contain_text("Credence")


def test_all_three_parts_are_judged(site, visit):
    from playwright.sync_api import expect

    page = visit(site, VIEWS["judge"])
    expect(page.locator(".verdict")).to_contain_text("judged false")


def test_unknown_name_is_explained(site, visit):
    from playwright.sync_api import expect

    page = visit(site, "#/ask?head=0%2C00&relation=right", complaints=("404",))
    expect(page.get_by_role("alert")).to_contain_text("No entity '0,00'")


def test_entity_sections(site, visit):
    from playwright.sync_api import expect

    page = visit(site, VIEWS["entity"])
    settled(page)
    for title in ("Known", "Neighborhood", "Probably missing", "Looks wrong", "Alike"):
        expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.locator(".graph a").first).to_be_visible()


def test_suspects_retract_and_undo(site, visit, kb):
    from playwright.sync_api import expect

    page = visit(site, VIEWS["suspects"])
    row = page.locator(".rows > li").first
    before = len(kb.beliefs())
    row.get_by_role("button", name="Retract").click()
    expect(row.locator(".retract")).to_have_text("Undo")
    assert len(kb.beliefs()) < before
    page.reload()
    expect(row).to_contain_text("retracted")
    row.get_by_role("button", name="Undo").click()
    expect(row.locator(".retract")).to_have_text("Retract")
    assert len(kb.beliefs()) == before
    page.reload()
    expect(row.locator(".retract")).to_have_text("Retract")


def test_entity_marks_what_was_decided_since_the_model(site, visit, kb, model):
    from playwright.sync_api import expect

    names = model.vocabularies
    head, relation, tail = next(
        (names.entities[h], names.relations[r], names.entities[t])
        for h, r, t in model.known.triples.tolist()
        if names.entities[h] not in HOSTILE and kb.holds(names.entities[h], names.relations[r], names.entities[t])
    )
    other = next(name for name in names.entities.names if not kb.holds(head, relation, name) and name not in HOSTILE)
    kb.retract(head, relation, tail)
    kb.add(head, relation, other)
    page = visit(site, f"#/entity?{urlencode({'name': head})}")
    settled(page)
    chips = page.locator(".known-facts li")
    expect(chips.filter(has_text="retracted")).to_contain_text(tail[:20])
    expect(chips.filter(has_text=f"{other}accepted")).to_be_visible()


@pytest.mark.parametrize("view", ["ask", "entity", "suspects"])
def test_open_explanations_are_in_the_address(site, visit, view):
    from playwright.sync_api import expect

    page = visit(site)
    less_credible = lambda url: url.replace("min_credence=0.2", "min_credence=0")  # noqa: E731
    page.route("**/complete?*", lambda route: route.continue_(url=less_credible(route.request.url)))
    page.goto(site + "/" + VIEWS[view].partition("&why")[0])
    settled(page)
    buttons = page.locator(".expand")
    shown = min(buttons.count(), 2)
    assert shown
    for place in range(shown):
        buttons.nth(place).click()
    page.reload()
    settled(page)
    expect(page.locator(".expand[aria-expanded=true]")).to_have_count(shown)
    expect(page.locator(".reason .verdict")).to_have_count(shown)
    for place in range(shown):
        buttons.nth(place).click()
    assert "why=" not in page.url


def test_a_link_of_reconciliation_opens_the_entity(site, visit):
    from playwright.sync_api import expect

    page = visit(site)
    pattern = page.request.get(f"{site}/api/v1/reconcile").json()["view"]["url"]
    for name in ("3,1", PATH):
        page.goto(pattern.replace("{{id}}", quote(name, safe="")))
        expect(page.locator("h1 bdi")).to_have_text(name)
        settled(page)


def test_hidden_groups_and_absent_entities_of_the_map(site, visit):
    from playwright.sync_api import expect

    page = visit(site, VIEWS["map"])
    settled(page)
    count = page.locator(".map-side .note").last
    expect(count).to_contain_text("36 entities")
    group = page.locator(".swatch").first
    group.click()
    page.wait_for_url("**hide=*")
    expect(count).not_to_contain_text("36 entities")
    page.reload()
    expect(group).to_have_attribute("aria-pressed", "false")
    expect(count).not_to_contain_text("36 entities")
    page.get_by_label("Find an entity", exact=True).fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("The map does not show nowhere")


def point_at_the_middle(page, name):
    """Move the pointer to the middle of the map until the name of a point is shown there; the place."""
    for _ in range(200):
        box = page.locator("canvas").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x - 40, y)
        page.mouse.move(x, y)
        page.wait_for_timeout(100)
        tip = page.locator(".tip")
        if tip.is_visible() and name in tip.inner_text():
            return x, y
    raise AssertionError(f"no point {name} in the middle of the map")


def test_map_is_explored_by_pointer_and_keys(site, visit):
    page = visit(site, VIEWS["map"])
    settled(page)
    page.get_by_label("Find an entity", exact=True).fill("0,0")
    page.keyboard.press("Enter")
    page.wait_for_url("**z=6.00*")
    point_at_the_middle(page, "0,0")
    page.reload()
    settled(page)
    page.mouse.click(*point_at_the_middle(page, "0,0"))
    page.wait_for_url("**#/entity?name=0%2C0")
    page.go_back()
    settled(page)
    page.keyboard.press("0")
    page.wait_for_timeout(500)
    assert "z=" not in page.url


def test_model_figures_sorting_and_comparison(site, visit):
    from playwright.sync_api import expect

    page = visit(site, "#/model")
    settled(page)
    expect(page.get_by_role("img", name="Reliability diagram")).to_be_visible()
    expect(page.get_by_role("img", name="Learning curve: validation metric by epoch")).to_be_visible()
    page.get_by_role("link", name="Relation", exact=True).click()
    expect(page.locator("tbody th").first).to_have_text("right")
    expect(page.locator("thead th.relation")).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("thead th[aria-sort]")).to_have_count(1)
    page.get_by_role("button", name="What changed").click()
    page.wait_for_url("**compare=1%2C2*")
    expect(page.get_by_role("row", name="mrr")).to_contain_text("+0.25")
    expect(page.locator(".log li").first).to_contain_text("5,5")
    page.reload()
    expect(page.get_by_role("row", name="mrr")).to_contain_text("+0.25")


def test_theme_help_and_keys(site, visit):
    from playwright.sync_api import expect

    page = visit(site, "#/model")
    settled(page)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    settled(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("go to the first field")
    assert not faults_of_access(page)
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**#/suspects")


def test_token_leaves_the_address(site, visit):
    page = visit(site, token="")
    page.goto(f"{site}/?token={'t' * 43}#/review")
    page.wait_for_url("**#/review**")
    assert "token" not in page.url
    cookie = page.context.cookies()[0]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


def test_without_a_token_review_says_what_to_do(site, visit):
    from playwright.sync_api import expect

    page = visit(site, "#/review", token="")
    expect(page.locator(".notice")).to_contain_text("open the address with the token")


def test_unknown_token_is_explained_on_the_page(site, visit):
    from playwright.sync_api import expect

    page = visit(site, "", token="", complaints=("401",))
    page.context.add_cookies([{"name": f"doxa_token_{site.rpartition(':')[2]}", "value": "old", "url": site}])
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The token is not known here")


def test_model_server_says_how_to_review(model_site, visit):
    from playwright.sync_api import expect

    page = visit(model_site, "#/review")
    expect(page.locator(".notice pre")).to_contain_text("doxa serve kb.db")
    expect(page.locator("#who")).to_contain_text("read-only")
