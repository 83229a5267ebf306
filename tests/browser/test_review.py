"""Review in a real browser: by keyboard, in the background, by two people at once."""

from __future__ import annotations

from tests.browser.conftest import faults_of_access, settled


def number_of(page) -> int:
    """The proposal on the card."""
    return int(page.locator(".card-top a").inner_text().removeprefix("#"))


def saved(page) -> None:
    from playwright.sync_api import expect

    expect(page.locator(".saving")).to_have_text("saved")


def test_twenty_proposals_by_keyboard(site, visit, kb):
    page = visit(site, "#/review")
    settled(page)
    plan = ["a", "x", " ", "a", "x"] * 4
    verdicts, numbers = {"a": "accept", "x": "reject", " ": "unsure"}, []
    for place, key in enumerate(plan):
        numbers.append(number_of(page))
        page.keyboard.press(key)
        if key == "x":
            page.keyboard.press("2" if place % 2 else "x")
    saved(page)
    assert len(set(numbers)) == 20
    decisions = kb.queue.decisions()
    assert decisions["verdict"].to_list() == [verdicts[key] for key in plan]
    assert decisions["curator"].unique().to_list() == ["ada"]
    assert decisions.filter(decisions["verdict"] == "reject")["reason"].to_list() == [
        "wrong tail" if place % 2 else None for place, key in enumerate(plan) if key == "x"
    ]
    assert "20 of 36 decided" in page.locator(".stats").inner_text()


def test_decisions_do_not_wait_for_the_server(site, visit, kb):
    page = visit(site, "#/review")
    settled(page)
    stopped: list = []
    passing = False
    page.route("**/decide", lambda route: route.continue_() if passing else stopped.append(route))
    first = number_of(page)
    for _ in range(3):
        page.keyboard.press("a")
    assert number_of(page) != first
    assert "saving 3" in page.locator(".saving").inner_text()
    assert len(kb.queue.decisions()) == 0
    passing = True
    for route in stopped:
        route.continue_()
    saved(page)
    assert len(kb.queue.decisions()) == 3


def test_saving_goes_on_when_the_server_is_back(site, visit, kb):
    page = visit(site, "#/review", complaints=("Failed to load resource",))
    settled(page)
    lost = []
    page.route("**/decide", lambda route: (lost.append(route), route.abort()) if len(lost) < 2 else route.continue_())
    page.keyboard.press("a")
    page.keyboard.press("a")
    saved(page)
    assert len(lost) == 2
    assert len(kb.queue.decisions()) == 2


def test_undo_reload_and_deep_link(site, visit, kb):
    from playwright.sync_api import expect

    page = visit(site, "#/review")
    settled(page)
    first = number_of(page)
    page.keyboard.press("a")
    saved(page)
    second = number_of(page)
    page.keyboard.press("Backspace")
    assert number_of(page) == first
    saved(page)
    expect(page.locator(".stats")).to_contain_text("0 of 36 decided")
    assert len(kb.queue.decisions()) == 0
    page.keyboard.press(" ")
    saved(page)
    assert number_of(page) == second
    page.reload()
    settled(page)
    assert number_of(page) == second
    page.goto(f"{site}/#/review?id=30")
    page.reload()
    settled(page)
    assert number_of(page) == 30
    page.keyboard.press("a")
    saved(page)
    assert kb.queue.decisions()["verdict"].to_list() == ["unsure", "accept"]


def test_backspace_undoes_decisions_of_an_earlier_sitting(site, visit, kb):
    from playwright.sync_api import expect

    page = visit(site, "#/review", complaints=("422",))
    settled(page)
    first = number_of(page)
    page.keyboard.press("a")
    saved(page)
    card = kb.queue.get(first)
    assert kb.holds(*card.triple)
    page.goto(f"{site}/#/ask")
    page.goto(f"{site}/#/review")
    page.reload()
    settled(page)
    assert number_of(page) != first
    page.keyboard.press("Backspace")
    expect(page.locator(".toast")).to_contain_text("Undone")
    expect(page.locator(".card-top a")).to_have_text(f"#{first}")
    expect(page.locator(".stats")).to_contain_text("0 of 36 decided")
    assert not kb.holds(*card.triple)
    page.keyboard.press("Backspace")
    expect(page.locator(".toast").last).to_contain_text("nothing to undo")
    page.keyboard.press("a")
    saved(page)
    assert kb.queue.decisions()["verdict"].to_list() == ["accept"]


def test_a_link_to_a_decided_proposal_says_so(site, visit, kb):
    from playwright.sync_api import expect

    kb.queue.decide(30, "accept")
    page = visit(site, "#/review?id=30")
    settled(page)
    expect(page.locator(".toast")).to_contain_text("Proposal 30 is already decided")
    assert number_of(page) != 30


def test_another_tail_is_right(site, visit, kb):
    page = visit(site, "#/review")
    settled(page)
    better = page.locator(".alternatives .entity").first.inner_text()
    card = kb.queue.get(number_of(page))
    page.keyboard.press("1")
    saved(page)
    assert kb.queue.decisions()["verdict"].to_list() == ["replace"]
    assert kb.holds(card.head, card.relation, better)


def test_reject_can_be_canceled(site, visit, kb):
    """The reasons to reject are accessible, too."""
    from playwright.sync_api import expect

    page = visit(site, "#/review")
    settled(page)
    first = number_of(page)
    page.keyboard.press("x")
    expect(page.get_by_role("group", name="Reason")).to_be_visible()
    assert not faults_of_access(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Accept")).to_be_visible()
    assert number_of(page) == first
    assert len(kb.queue.decisions()) == 0


def test_two_reviewers_at_once(site, visit, kb):
    pages = [visit(site, "#/review", token=kb.accounts.add(name, "curator")) for name in ("grace", "alan")]
    seen: list[set[int]] = [set(), set()]
    for page in pages:
        settled(page)
    for _ in range(8):
        for page, numbers in zip(pages, seen, strict=True):
            numbers.add(number_of(page))
            page.keyboard.press("a")
    for page in pages:
        saved(page)
    decisions = kb.queue.decisions()
    assert not seen[0] & seen[1]
    assert decisions["curator"].value_counts().sort("curator").rows() == [("alan", 8), ("grace", 8)]
    assert decisions["belief_id"].n_unique() == 16


def test_one_reviewer_in_two_windows(site, visit, kb):
    """Both windows have the same proposals in hand; the second decision about one is refused and said so."""
    from playwright.sync_api import expect

    pages = [visit(site, "#/review", complaints=("409",)) for _ in range(2)]
    for page in pages:
        settled(page)
    assert number_of(pages[0]) == number_of(pages[1])
    pages[0].keyboard.press("a")
    saved(pages[0])
    pages[1].keyboard.press("a")
    expect(pages[1].locator(".toast")).to_contain_text("already decided")
    pages[1].keyboard.press("a")
    saved(pages[1])
    assert len(kb.queue.decisions()) == 2


def test_end_of_the_queue(site, visit, kb):
    from playwright.sync_api import expect

    page = visit(site, "#/review")
    settled(page)
    for _ in range(36):
        expect(page.locator(".card-top")).to_be_visible()
        page.keyboard.press("a")
    expect(page.locator(".card")).to_contain_text("Nothing to review")
    expect(page.get_by_role("button", name="Search for missing beliefs")).to_be_visible()
    saved(page)
    assert len(kb.queue.decisions()) == 36
