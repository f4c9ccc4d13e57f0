"""The page of the claims is filtered, sorted, folded out and downloaded in a browser."""

import json

import pytest

from lnlab.papers.claims import claims


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return claims().save(tmp_path_factory.mktemp("claims") / "claims.html").as_uri()


@pytest.fixture
def page(browser, address):
    errors = []
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}#ba2016-6.5-faster")
    yield page
    page.close()
    assert not errors


def shown(page):
    return page.locator("details[id]:visible").evaluate_all("rows => rows.map(row => row.id)")


def test_an_address_opens_its_statement_and_nothing_is_wider_than_a_phone(page):
    assert page.locator("details[open]").evaluate_all("all => all.map(one => one.id)") == [
        "ba2016-6.5-faster"
    ]
    assert page.get_by_text("the first 10 epochs").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_statements_are_filtered_sorted_and_folded_out_by_keyboard(page):
    page.locator("select[name=word]").select_option("mixed")
    assert sorted(shown(page)) == sorted(
        one["id"] for one in claims() if one["word"] == "mixed"
    )
    page.locator("select[name=word]").select_option("")
    page.locator("select[name=theme]").select_option("Transformers")
    page.locator("select[name=sort]").select_option("effect")
    of_theme = [one for one in claims() if one["theme"] == "Transformers"]
    best = max((one for one in of_theme if one["axis"]), key=lambda one: one["axis"][0])
    assert shown(page)[0] == best["id"]
    page.locator(f"details[id='{best['id']}'] > summary").focus()
    page.keyboard.press("Enter")
    assert page.locator(f"details[id='{best['id']}'] dl").is_visible()


def test_a_search_finds_every_word_in_any_order(page):
    found = []
    for text in ("batch 128 MNIST", " mnist  BATCH 128"):
        page.get_by_label("search").fill(text)
        found.append(shown(page))
    assert found[0] == found[1]
    assert "ba2016-6.6-faster-128" in found[0]
    assert len(found[0]) < len(claims()) / 2
    page.get_by_label("search").fill("batch 128 nowhere")
    assert not shown(page)


def test_what_is_shown_is_downloaded(page, tmp_path):
    page.get_by_label("search").fill("handwriting")
    assert f"{len(shown(page))} of {len(claims())} statements shown" in page.inner_text("form")
    for name in ("csv", "json"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Download shown ({name.upper()})").click()
        waiting.value.save_as(tmp_path / f"claims.{name}")
    records = json.loads((tmp_path / "claims.json").read_text())
    assert {record["id"] for record in records} == {*shown(page)}
    lines = (tmp_path / "claims.csv").read_text().splitlines()
    assert len(lines) == 1 + len(records)
    assert lines[0].startswith('"id","paper","source"')
