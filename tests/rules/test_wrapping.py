"""The program that wraps statements changes white space alone, and leaves what it has wrapped."""

from __future__ import annotations

import pytest

from support.house import ROOT
from wrap import wrapped

BODY = """create function f()
as $$
{}
$$;
"""


def wrap(body: str) -> str:
    return wrapped(BODY.format(body))[len(BODY.partition("{}")[0]) : -len("\n$$;\n")]


def test_what_fits_is_one_line() -> None:
    assert wrap("select\n    a,\n    b\nfrom t\nwhere a = 1\n    and b = 2;") == (
        "select a, b from t where a = 1 and b = 2;"
    )
    assert wrap("if a\n    and b\nthen\n    return;\nend if;") == (
        "if a and b then\n    return;\nend if;"
    )
    assert wrap("x := f(\n    case\n        when a then 1\n        else 2\n    end\n);") == (
        "x := f(case when a then 1 else 2 end);"
    )


def test_what_does_not_fit_is_filled() -> None:
    names = [f"argument_{number}" for number in range(12)]
    listed = ",\n    ".join(names)
    assert wrap(f"perform f(\n    {listed}\n);").splitlines() == [
        "perform f(",
        "    " + ", ".join(names[:8]) + ",",
        "    " + ", ".join(names[8:]),
        ");",
    ]


def test_lists_that_are_read_side_by_side_stay() -> None:
    names = ",\n    ".join(f"a_rather_long_name_{number}" for number in range(8))
    body = f"select\n    {names}\ninto\n    {names}\nfrom t;"
    assert wrap(body) == body


@pytest.mark.parametrize(
    "body",
    [
        "select a\n-- why\nfrom t;",
        "a := 1;\n\nb := 2;",
        "begin\n    a := 1;\nend;",
        "x := 'a\n    b';",
    ],
)
def test_what_is_not_joined(body: str) -> None:
    assert wrap(body) == body


def test_headers() -> None:
    attributes = (
        "returns void\nlanguage plpgsql\nvolatile\nparallel unsafe\n{}as $$\nbegin\nend\n$$;\n"
    )
    private = "create function pgq._f(\n    a integer,\n    b text\n)\n" + attributes
    assert wrapped(private.format("")).splitlines()[:3] == [
        "create function pgq._f(a integer, b text)",
        "returns void",
        "language plpgsql volatile parallel unsafe",
    ]
    public = private.replace("_f", "f").format("security definer\nset jit = off\n")
    assert wrapped(public).splitlines()[:8] == [
        *public.splitlines()[:5],
        "language plpgsql volatile parallel unsafe",
        "security definer",
        "set jit = off",
    ]


def test_sources_are_wrapped() -> None:
    for path in (ROOT / "sql").rglob("*.*sql"):
        source = path.read_text()
        assert wrapped(source, part=path.suffix == ".plpgsql") == source, path


def test_an_argument_of_a_header_is_not_broken() -> None:
    arguments = ", ".join(f"arg_{number} timestamp with time zone" for number in range(5))
    header = f"create function pgq._f({arguments})\nreturns void\nlanguage sql stable"
    found = wrapped(f"{header}\nas $$\nselect 1;\n$$;\n").splitlines()
    assert [line.count("arg_") for line in found[1:3]] == [3, 2]
    assert all(line.rstrip(",").endswith("time zone") for line in found[1:3])
