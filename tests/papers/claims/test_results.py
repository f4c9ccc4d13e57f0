"""Judged claims: what is kept is current, and what is told of it is true."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from markupsafe import escape

from lnlab.book.claims_page import (
    MEANINGS,
    claims_html,
    details_by_label,
    heading_and_commands_by_setting,
    interval_svg,
    meanings_of_terms_in,
    titled_groups_of_settings,
)
from lnlab.papers.claims import claims, findings_markdown
from lnlab.papers.claims.entries import AFTER, Comparison
from lnlab.papers.claims.judge import WORDS
from lnlab.papers.claims.results import (
    ROOT,
    hash_kept_runs_and_claims,
    judge_statements,
    load_or_judge_records,
    shell_loop_if_grid,
)
from lnlab.papers.claims.table import INTERVAL, claims_markdown, explain_record
from lnlab.papers.claims.wording import describe_effect

RECORDS = load_or_judge_records()
BY_ID = {one["id"]: one for one in RECORDS}
README = Path(__file__).parents[3] / "README.md"


def test_the_kept_records_are_current():
    kept = json.loads((ROOT / "claims.json").read_text(encoding="utf-8"))
    assert kept["source"] == hash_kept_runs_and_claims(), "run `lnlab claims judge`"


@pytest.mark.slow
def test_judging_again_gives_the_kept_records():
    assert json.loads(json.dumps(judge_statements())) == RECORDS


def test_every_record_has_a_word_and_a_headline():
    assert {one["word"] for one in RECORDS} <= {*WORDS} == {*MEANINGS}
    for one in RECORDS:
        headlines = [s for s in one["settings"] if s.get("headline")]
        assert len(headlines) == bool(one["settings"]), one["id"]
        for setting in one["settings"]:
            assert len(setting["values"]) == setting["n"] or setting["word"] == "not tested"
        declared_before = one["declared"] not in ("", AFTER)
        assert (one["q"] is not None) == (declared_before and one["p"] is not None), one["id"]


def test_a_fork_of_rates_is_shown_on_both_sides():
    one = BY_ID["ba2016-6.6-faster-128"]
    assert one["word"] == "mixed"
    words = {
        s["tuned_on"]: s["word"]
        for s in one["settings"]
        if "MNIST, each at its best" in s["name"]
    }
    assert words == {"validation": "contradicted", "training": "supported"}
    assert "(26 to 30); its runs are not kept; for, in “MNIST" in one["effect"]
    assert not next(s for s in one["settings"] if s.get("headline"))["kept"]


@pytest.mark.parametrize("id", [one["id"] for one in RECORDS if one["word"] == "mixed"])
def test_a_mixed_statement_names_both_settings(id):
    one = BY_ID[id]
    named = re.findall("(for|against), in “([^”]+)”: ", one["effect"])
    assert {side for side, _ in named} == {"for", "against"}
    assert named[0][1] == one["setting"]
    words = {s["name"]: s["word"] for s in one["settings"] if not s["asks"]}
    assert {words[name] for _, name in named} == {"supported", "contradicted"}


def test_settings_with_kept_runs_have_commands_where_the_one_shown_first_has_none():
    one = BY_ID["ba2016-6.7-batch"]
    heading, commands = heading_and_commands_by_setting(one)
    assert f"“{one['setting']}”, whose runs are not kept" in heading
    assert one["setting"] not in commands
    assert "CIFAR-10: ResNet-8, batch 128, one learning rate for all (0.001)" in commands
    shown, page = explain_record(one), claims_html([one])
    for command in commands.values():
        assert command in shown
        assert str(escape(command.replace(" && ", " &&\n"))) in page
    handwriting = BY_ID["ba2016-6.5-faster"]
    assert heading_and_commands_by_setting(handwriting)[1] == {"": handwriting["command"]}
    assert "whose runs" not in explain_record(BY_ID["benothman2018-4.3-lipschitz"])


def test_a_statement_says_why_its_setting_is_shown():
    shown = {
        id: details_by_label(one).get("Why this one is shown", "") for id, one in BY_ID.items()
    }
    assert shown["ziaee2022-4-cifar-1"] == "It is the nearest to the paper."
    assert shown["ba2016-1-rnn"].endswith("alike, it has the most seeds (30).")
    assert "declared before its runs" in shown["ba2016-3-gradients"]
    assert shown["ba2016-6.2-faster"].startswith("Of 2 settings as near to the paper")
    assert not shown["benothman2018-4.1-steps"]


def test_the_words_of_all_settings_are_counted_by_question():
    assert details_by_label(BY_ID["ba2016-6.6-faster-4"])["All settings"] == (
        "4 supported; against no normalization: 1 supported; lower test error: 3 supported."
    )
    assert (
        "nothing learned in 2" in details_by_label(BY_ID["ba2016-6.2-faster"])["All settings"]
    )


def test_a_diverged_training_has_a_page():
    one = BY_ID["ba2016-6.5-comparable"]
    assert one["values"].count(None) == 1
    assert json.dumps(RECORDS, allow_nan=False)  # NaN is no JSON
    assert "diverged <small>" in claims_html([one])


def test_nothing_learned_is_not_tested():
    one = BY_ID["ba2016-6.2-better"]
    books = [s for s in one["settings"] if "Book Test" in s["name"]]
    assert {s["verdict"] for s in books} == {"not tested: nothing learned"}
    one = BY_ID["ba2016-6.3-table3"]
    assert "2 of 5 without normalization (5 to 85 %)" in one["effect"]
    learned = details_by_label(one)["Counted as having learned"]
    assert "a better score than a bag of words" in learned
    one = BY_ID["ba2016-6.4-bound"]
    small_weights = one["settings"][0]
    assert small_weights["effect"] == (
        "2 of 5 networks learned with LN (5 to 85 %), 4 of 5 without normalization (28 to 99 %)"
    )
    told = details_by_label({**one, "shares": True})
    assert told["The smallest effect that matters"].startswith("Where all networks learned, ")


def test_no_more_other_settings_are_counted_than_ask_the_question():
    counted = {}
    for one in RECORDS:
        others = [s for s in one["settings"] if not (s.get("headline") or s["asks"])]
        tested = [s for s in others if s["word"] != "not tested"]
        if found := re.search(r"of (\d+) other settings as near", one["effect"]):
            counted[one["id"]] = int(found[1]), len(tested)
    assert len(counted) > 5
    assert all(number <= most for number, most in counted.values()), counted
    # three more have equal shares of networks that learned, of another question
    assert "the one other setting as near" in BY_ID["ba2016-6.3-table3"]["effect"]


def test_q_stands_only_where_a_test_rejects():
    shown = {
        one["word"] for one in RECORDS if "q = " in details_by_label(one).get("How sure", "")
    }
    assert shown == {"supported", "contradicted", "mixed"}
    dyt, warmup = (
        details_by_label(BY_ID["zhu2025-match"]),
        details_by_label(BY_ID["xiong2020-without"]),
    )
    assert "includes 0.03 nats per character higher test loss with DyT" in dyt["How sure"]
    assert "as large as the smallest effect" in warmup["How sure"]


def test_a_lower_bound_is_rounded_down():
    # 9,976 steps over 4,620 sentences are 2.159
    assert "at least 2.1 times" in BY_ID["benothman2018-4.1-eq10"]["effect"]


def test_a_sentence_of_two_parts_has_both_results():
    effect = BY_ID["ba2016-6.2-faster"]["effect"]
    assert "against BN: supported on generated cloze questions, 10.9" in effect


def test_other_questions_say_what_is_claimed_and_on_which_data():
    some = dict(titled_groups_of_settings(BY_ID["ba2016-6.3-faster"]))
    title = next(title for title in some if "SUBJ" in title)
    assert "Claimed: higher accuracy gained by training with LN than without" in title
    words = {one["name"].partition(",")[0]: one["verdict"] for one in some[title]}
    assert words["novels"] == "not tested: nothing learned"
    assert words["generated stories"] == "supported on generated stories"


def test_what_is_read_is_that_of_the_weights_that_are_tested():
    read = details_by_label(BY_ID["ziaee2022-4-cifar-test"])["What is compared"]
    assert "weights of the epoch with the lowest held-out loss" in read
    assert "16 configurations" in read
    assert "seed by seed" in read
    assert "end of training" in details_by_label(BY_ID["zhu2025-match"])["What is compared"]


def test_levels_of_both_sides_give_the_effect():
    sides = details_by_label(BY_ID["ba2016-6.2-insensitive"])["The two sides"]
    assert sides.startswith("1.15 with LN (0.879 over 0.765), 2.16 with BN (1.27 over 0.587)")
    assert BY_ID["ba2016-6.2-insensitive"]["effect"].startswith("47 % lower")  # 1.15 / 2.16
    assert (
        "2.503 with Peri-LN, 2.465 with pre-LN"
        in details_by_label(BY_ID["kim2025-lower"])["The two sides"]
    )


def test_an_inconclusive_interval_says_what_it_rules_out():
    one = BY_ID["benothman2018-4.2-encoder"]
    assert one["effect"].endswith("18 % fewer is ruled out")
    # an interval without 0 needs no such bound
    assert "ruled out" not in BY_ID["zhu2025-match"]["effect"]
    assert (
        "in the claimed direction it excludes them (18 % fewer)"
        in details_by_label(one)["How sure"]
    )


def test_a_grid_of_trainings_is_one_loop():
    commands = [
        [f"norm={a}", f"data={b}", "x"] for a in ("layer", "batch pooled") for b in "cd"
    ]
    assert shell_loop_if_grid(commands) == (
        "for norm in layer 'batch pooled'; do for data in c d; do "
        'norm="$norm" data="$data" x; done; done'
    )
    assert not shell_loop_if_grid(commands[:3])
    assert not shell_loop_if_grid([*commands[:3], ["norm=layer", "data=e", "x"]])


def comparison(**given):
    return Comparison(
        name="", nearness="paper", arms=[{"norm": "layer"}, {"norm": "none"}], measure="",
        smallest_relevant_effect=0.1, smallest_effect_reason="", seeds=(0,),
        **{"quantity_and_unit": "updates", "effect_type": "ratio", **given},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of", "estimate", "ends", "text"),
    [
        ({}, -0.31, (-0.39, -0.24),
         "27 % fewer updates with LN than without normalization (21 to 32)"),
        ({}, 0.05, (-0.05, 0.15),
         "5 % more updates with LN than without normalization (5 % fewer to 16 % more)"),
        ({"quantity_and_unit": "loss"}, 1.1, (0.9, 1.3),
         "with LN, 3 times the loss without normalization (2.5 to 3.7)"),
        ({"effect_type": "difference", "quantity_and_unit": "nats of loss", "decimals": 1},
         -11.0, (-17.0, 5.0),
         "11.0 nats lower loss with LN than without normalization (17.0 lower to 5.0 higher)"),
    ],
)  # fmt: skip
def test_effects_have_natural_units(of, estimate, ends, text):
    assert describe_effect(comparison(**of), estimate, ends) == text


def test_the_page_escapes_what_it_is_given_and_has_an_address_per_statement():
    one = {**BY_ID["ba2016-6.5-faster"], "says": "<b>bold</b>", "quote": '"><script>x'}
    html = claims_html([one])
    assert not re.search("<b>bold|<script>x", html)
    assert 'id="ba2016-6.5-faster"' in html
    assert html.count("<svg") == 1 + len(one["settings"])
    assert max(map(float, re.findall(r'cx="([\d.]+)"', interval_svg([40.0, 30.0, 50.0])))) < 220


def test_claims_print_as_a_table_and_plot():
    some = claims("ba2016-6.5")
    assert repr(some).splitlines()[-1].startswith("3 statements: ")
    assert len(some.to_frame()) == 3
    assert sum(len(trace.x) for trace in some.plot().data) == 1  # shares have no place on it
    assert {*some._repr_mimebundle_()} >= {"text/plain", "text/html"}


def test_ids_and_files_that_nothing_is_known_of_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no statement's id begins with 'ba2017'"):
        claims("ba2016-6.5", "ba2017")
    with pytest.raises(ValueError, match=r"x\.pdf: end its name with \.html, \.md"):
        claims("ba2016-6.5").save(tmp_path / "x.pdf")


def test_mixed_differs_from_contradicted_by_more_than_its_color():
    traces = {trace.name: trace for trace in claims("ba2016").plot().data}
    assert traces["mixed"].marker.symbol != traces["contradicted"].marker.symbol


def test_every_number_of_a_finding_is_that_of_a_judged_setting():
    lines = findings_markdown().splitlines()
    assert len(lines) == 10
    page = CLAIMS_PAGE.read_text(encoding="utf-8").splitlines()
    for line in lines:
        ids = re.findall(r"\]\(#([\w.-]+)\)", line)
        effects = [s["effect"] for id in ids for s in BY_ID[id]["settings"]]
        listed = [row for row in page if any(f'<a id="{id}">' in row for id in ids)]
        assert len(listed) == len(ids)
        intervals = INTERVAL.findall(line)
        for one in intervals:
            numbers = [effect.split()[0] for effect in effects if one in effect]
            assert any(re.search(rf"\b{number} ", line) for number in numbers), (one, line)
            assert any(one in row for row in listed), (one, line)
        assert intervals or "Table 1" in line
    words = Counter(one["word"] for one in RECORDS)
    counted = [words[name] for name in ("wrong as printed", "ambiguous")]
    about_formulas = next(line for line in lines if "Table 1" in line)
    told = re.findall(r"\b(\d+) (?:statements|more|are)", about_formulas)
    assert [int(number) for number in told] == counted


def test_the_readme_has_the_findings():
    text = README.read_text(encoding="utf-8")
    assert findings_markdown("docs/claims.md") in text
    assert f"lists the {len(RECORDS)} statements" in text


CLAIMS_PAGE = README.parent / "docs" / "claims.md"


def test_the_list_of_claims_for_a_code_host_is_current():
    page = CLAIMS_PAGE.read_text(encoding="utf-8")
    assert page == claims_markdown(RECORDS), "run `lnlab claims judge`"
    (line,) = (line for line in page.splitlines() if 'id="ba2016-6.5-faster"' in line)
    assert "*Inconclusive*: 6 % fewer updates" in line
    assert "n = 5). Ba et al. (2016), 6.5, Fig. 5, `ba2016-6.5-faster`<br>Also: 27 %" in line
    assert line.endswith("one learning rate for all (0.001) (n = 5).")


@pytest.mark.parametrize("path", [README, CLAIMS_PAGE.with_name("errata.md")])
def test_links_to_claims_have_their_anchors(path):
    ids = re.findall(r"claims\.md#([\w.-]+)", path.read_text(encoding="utf-8"))
    anchors = re.findall('<a id="([^"]+)">', CLAIMS_PAGE.read_text(encoding="utf-8"))
    assert len(ids) > 9
    assert {*ids} <= {*anchors}


def test_a_sigma_that_is_no_deviation_is_not_explained_as_one():
    assert "σ" in meanings_of_terms_in("Layer norm takes μ and σ over the units.")
    assert not meanings_of_terms_in("σ(o), with logistic function σ.")
