"""The script that puts mistakes into the code puts in the mistakes that it says."""

import ast

import pytest

from benchmarks.mutations import ROOT, drawn, in_cpp, in_python, left_out


def changed(text, mutations):
    return [text[:begin] + after + text[end:] for begin, end, after in mutations]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f(a < b)", {"f(a <= b)", "pass"}),
        ("x = y - z", {"x = y + z"}),
        (
            "def f(σ):\n    return not σ and max(σ, 0)",
            {"σ or max", " σ and max", "min(σ", "1)"},
        ),
        ("x = not (y)", {"x =  (y)"}),
        ("x = -(y)", {"x = (y)"}),
        ("class C:\n    on: bool = True", {"on: bool = False"}),
    ],
)
def test_each_operator_has_its_mistake(text, wanted):
    found = changed(text, in_python(text))
    assert len(found) == len(wanted)
    assert all(any(part in one for one in found) for part in wanted)


def test_settings_annotations_and_errors_stay_as_they_are():
    text = "EPS = 1e-5\ndef f(a: int | None) -> Literal[3]:\n    raise ValueError(f'{a + 1}')"
    assert not list(in_python(text))


def test_the_number_of_a_random_stream_is_as_good_as_another():
    found = changed("x = f(normal(5, 0, n - 2))", in_python("x = f(normal(5, 0, n - 2))"))
    assert found == ["x = f(normal(5, 0, n + 2))"]
    found = changed("def f():\n    normal(5, 0, 2)", in_python("def f():\n    normal(5, 0, 2)"))
    assert sorted(found) == ["def f():\n    normal(5, 0, 3)", "def f():\n    pass"]


def test_a_copy_has_every_room_of_the_code():
    assert left_out(str(ROOT), ["lnlab", "runs", ".git"]) == {"runs", ".git"}
    assert left_out(str(ROOT / "lnlab"), ["runs", "__pycache__"]) == {"__pycache__"}


def test_mistakes_in_cpp():
    text = "#define A (b + c)\n// a - b\nfor (int i = 0; i < n; ++i) s += a * b;\n"
    assert [after for _, _, after in in_cpp(text)] == ["<=", "-=", "/"]


def test_a_draw_is_the_same_each_time_and_every_mutation_can_be_read():
    those = drawn(200, seed=1)
    assert those == drawn(200, seed=1) != drawn(200, seed=2)
    for mutation in those:
        text = (ROOT / mutation.path).read_text()
        assert text[mutation.begin : mutation.end] == mutation.before != mutation.after
        if mutation.path.endswith(".py"):
            ast.parse(text[: mutation.begin] + mutation.after + text[mutation.end :])
