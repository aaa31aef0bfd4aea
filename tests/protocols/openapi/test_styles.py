"""Every style and explode, as the specification shows them, and what it leaves to us."""

from pathlib import Path

import pytest

from toolwire.protocols.openapi.request.parameter_styles import write, write_querystring
from toolwire.protocols.openapi.request.plan import Parameter, Place

EMPTY, STRING, ARRAY, OBJECT = "", "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}

# place, style, explode, then empty, string, array, object; None where the combination is undefined
TABLE = [
    ("path", "matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
    ("path", "matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ("path", "label", False, ".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("path", "label", True, ".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("path", "simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("path", "simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("header", "simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("header", "simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("query", "form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("query", "form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("query", "spaceDelimited", False, None, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
    ("query", "pipeDelimited", False, None, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("query", "deepObject", True, None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("cookie", "form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("cookie", "cookie", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("cookie", "cookie", True, "color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"),
]
ROWS = [
    pytest.param(Place(place), style, explode, value, text, id=f"{place}-{style}-{explode}-{sort}")
    for place, style, explode, *texts in TABLE
    for sort, value, text in zip(
        ("empty", "string", "array", "object"), (EMPTY, STRING, ARRAY, OBJECT), texts, strict=True
    )
    if text is not None
]


def query(value: object, style: str = "form", *, explode: bool = True, reserved: bool = False) -> str:
    return write(Parameter("color", Place.QUERY, style, explode, reserved), value)


@pytest.mark.requirement("CV-01")
@pytest.mark.parametrize(("place", "style", "explode", "value", "text"), ROWS)
def test_each_style_is_written_as_in_the_specification(
    place: Place, style: str, explode: bool, value: object, text: str
) -> None:
    assert write(Parameter("color", place, style, explode), value) == text


@pytest.mark.requirement("CV-01")
def test_documented_style_table_equals_the_tested_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "openapi-styles.md").read_text(encoding="utf-8")
    shown = [line for line in page.partition("|---")[2].splitlines()[1:] if line.startswith("| ")][: len(TABLE)]
    assert shown == [_line(*row[:3], [text is not None for text in row[3:]]) for row in TABLE]


def _line(place: str, style: str, explode: bool, defined: list[bool]) -> str:
    cells = [place, style, str(explode).lower()]
    for known, value in zip(defined, (EMPTY, STRING, ARRAY, OBJECT), strict=True):
        text = write(Parameter("color", Place(place), style, explode), value)
        nothing = "refused" if place == "path" else "nothing"
        cells.append((f"`{text}`" if text else nothing) if known else "-")
    return f"| {' | '.join(cells)} |"


@pytest.mark.requirement("CV-01")
@pytest.mark.parametrize(
    ("style", "explode", "text"),
    [
        ("form", False, "color=a%2Cb,c%26d"),
        ("form", True, "color=a%2Cb&color=c%26d"),
        ("pipeDelimited", False, "color=a%2Cb%7Cc%26d"),
        ("spaceDelimited", False, "color=a%2Cb%20c%26d"),
    ],
)
def test_items_are_encoded_separately_and_delimiters_kept(style: str, explode: bool, text: str) -> None:
    assert query(["a,b", "c&d"], style, explode=explode) == text


@pytest.mark.requirement("CV-01")
def test_the_delimiters_of_paths_are_encoded_inside_items() -> None:
    assert write(Parameter("c", Place.PATH, "label", explode=True), ["a.b;c", "d/e"]) == ".a.b%3Bc.d%2Fe"
    assert write(Parameter("c", Place.PATH, "matrix", explode=True), {"a=b": "c;d"}) == ";a%3Db=c%3Bd"


@pytest.mark.requirement("CV-01")
def test_scalars_are_written_in_their_shortest_json_form() -> None:
    assert [query(value) for value in (True, False, 1, 1.0, 0.5, 1e300, 2**80)] == [
        "color=true",
        "color=false",
        "color=1",
        "color=1",
        "color=0.5",
        "color=1e300",
        f"color={2**80}",
    ]


@pytest.mark.requirement("CV-01")
@pytest.mark.parametrize("style", ["form", "spaceDelimited", "pipeDelimited", "deepObject"])
@pytest.mark.parametrize("value", [None, [], {}, [None], {"a": None}])
def test_null_and_empty_arrays_and_objects_are_left_out(style: str, value: object) -> None:
    assert query(value, style, explode=False) == ""
    assert query(value, style, explode=True) == ""


def test_null_items_are_omitted_from_arrays_and_objects() -> None:
    assert query(["a", None, "b"]) == "color=a&color=b"
    assert query({"a": None, "b": 1}, explode=False) == "color=b,1"


def test_exploded_delimited_arrays_repeat_the_name() -> None:
    assert query(ARRAY, "pipeDelimited", explode=True) == "color=blue&color=black&color=brown"


def test_deep_object_nests_its_brackets_and_numbers_arrays() -> None:
    assert query({"a": {"b": 1}, "c": ["x", "y&z"]}, "deepObject") == (
        "color%5Ba%5D%5Bb%5D=1&color%5Bc%5D%5B0%5D=x&color%5Bc%5D%5B1%5D=y%26z"
    )
    assert query([{"a": 1}, {"a": 2}], "deepObject") == "color%5B0%5D%5Ba%5D=1&color%5B1%5D%5Ba%5D=2"


def test_nested_data_in_a_flat_style_is_written_as_json() -> None:
    assert query([{"a": 1}], explode=False) == "color=%7B%22a%22%3A1%7D"


@pytest.mark.requirement("CV-02")
def test_reserved_characters_and_escapes_are_kept_but_never_end_the_value() -> None:
    assert query("a/b:c?d=%41%zz", reserved=True) == "color=a/b:c?d=%41%25zz"
    assert query("x&admin=1#f+[é]", reserved=True) == "color=x%26admin=1%23f%2B%5B%C3%A9%5D"


@pytest.mark.requirement("CV-02")
def test_a_path_never_keeps_reserved_characters() -> None:
    assert write(Parameter("c", Place.PATH, "simple", reserved=True), "a/b?c#d") == "a%2Fb%3Fc%23d"


@pytest.mark.requirement("CV-03")
def test_a_content_parameter_is_json_under_its_own_name() -> None:
    value = {"lat": 1.5, "é": [None]}
    text = "%7B%22lat%22%3A1.5%2C%22%5Cu00e9%22%3A%5Bnull%5D%7D"
    assert write(Parameter("near", Place.QUERY, "content"), value) == f"near={text}"
    assert write(Parameter("near", Place.HEADER, "content"), value) == '{"lat":1.5,"\\u00e9":[null]}'


def test_names_are_encoded_in_a_query() -> None:
    assert write(Parameter("page[size]", Place.QUERY, "form"), 5) == "page%5Bsize%5D=5"


def test_a_header_value_is_passed_through_unchanged() -> None:
    assert write(Parameter("if-match", Place.HEADER, "simple"), '"a b%"') == '"a b%"'


def test_a_form_cookie_is_encoded_and_a_cookie_style_one_is_not() -> None:
    assert write(Parameter("c", Place.COOKIE, "form", explode=True), ["a b", "c"]) == "c=a%20b; c=c"
    assert write(Parameter("c", Place.COOKIE, "cookie", explode=True), "a%20b") == "c=a%20b"


@pytest.mark.requirement("CV-02")
def test_reserved_path_characters_are_kept_only_if_legal_in_a_segment() -> None:
    assert write(Parameter("c", Place.PATH, "simple", reserved=True), "a:b@c;d/%2F?#") == "a:b@c;d%2F%252F%3F%23"


@pytest.mark.requirement("CV-03")
@pytest.mark.parametrize(
    ("media_type", "value", "text"),
    [
        ("application/json", {"a": [1, "x y"]}, "q=%7B%22a%22%3A%5B1%2C%22x%20y%22%5D%7D"),
        ("application/problem+json", "text", "q=%22text%22"),
        ("text/plain", "a=b&c", "q=a%3Db%26c"),
        ("application/x-www-form-urlencoded", {"a": [1, 2], "b": "x y"}, "q=a%3D1%26a%3D2%26b%3Dx%2520y"),
    ],
)
def test_a_content_parameter_is_written_in_its_media_type_under_its_own_name(
    media_type: str, value: object, text: str
) -> None:
    assert write(Parameter("q", Place.QUERY, "content", media_type=media_type), value) == text


@pytest.mark.requirement("CV-28")
@pytest.mark.parametrize(
    ("media_type", "value", "text"),
    [
        ("application/x-www-form-urlencoded", {"a": [1, 2], "b&c": "x y", "n": None}, "a=1&a=2&b%26c=x%20y"),
        ("application/json", {"a": 1}, "%7B%22a%22%3A1%7D"),
        ("text/plain", "free text?", "free%20text%3F"),
        ("application/x-www-form-urlencoded", "no object", ""),
    ],
)
def test_a_querystring_is_the_whole_query(media_type: str, value: object, text: str) -> None:
    assert write_querystring(Parameter("q", Place.QUERYSTRING, "content", media_type=media_type), value) == text


@pytest.mark.requirement("CV-33")
def test_large_integers_and_decimals_are_written_digit_by_digit() -> None:
    assert [query(value) for value in (2**63 + 1, -(2**64), 12345678901234567890123, 0.1, 1234.5678)] == [
        "color=9223372036854775809",
        "color=-18446744073709551616",
        "color=12345678901234567890123",
        "color=0.1",
        "color=1234.5678",
    ]


@pytest.mark.requirement("CV-02")
def test_reserved_characters_never_end_an_item_or_a_key() -> None:
    assert query(["a,b", "c"], explode=False, reserved=True) == "color=a%2Cb,c"
    assert query(["a,b", "c"], explode=True, reserved=True) == "color=a,b&color=c"
    assert query({"a=b&c": "d=e"}, explode=True, reserved=True) == "a%3Db%26c=d=e"
    assert write(Parameter("c", Place.PATH, "matrix", reserved=True), "x;admin=1") == ";c=x%3Badmin=1"
    assert write(Parameter("c", Place.PATH, "simple", explode=True, reserved=True), {"a=b": "c,d"}) == "a%3Db=c%2Cd"
    assert write(Parameter("c", Place.COOKIE, "form", reserved=True), "a;b") == "c=a%3Bb"


@pytest.mark.requirement("CV-03")
def test_cookie_with_content_is_sent_unchanged_unless_it_is_json() -> None:
    assert write(Parameter("c", Place.COOKIE, "text", media_type="text/plain"), "YQ+/==") == "c=YQ+/=="
    form = Parameter("c", Place.COOKIE, "text", media_type="application/x-www-form-urlencoded")
    assert write(form, {"a": 1, "b": "x;y"}) == "c=a=1&b=x%3By"
    assert write(Parameter("c", Place.COOKIE, "content", media_type="application/json"), ["a"]) == "c=%5B%22a%22%5D"


@pytest.mark.requirement("CV-29")
@pytest.mark.parametrize(
    ("place", "separators", "text"),
    [
        (Place.QUERY, ("\t",), "c=a%2Cb%09c"),
        (Place.QUERY, ("", ","), "c=a%2Cb&c=c"),
        (Place.PATH, ("|",), "a%2Cb%7Cc"),
        (Place.HEADER, (" ",), "a,b c"),
    ],
)
def test_a_collection_format_is_written_with_its_separator(
    place: Place, separators: tuple[str, ...], text: str
) -> None:
    style = "form" if place is Place.QUERY else "simple"
    assert write(Parameter("c", place, style, separators=separators), ["a,b", None, "c"]) == text


@pytest.mark.requirement("CV-29")
def test_each_level_of_arrays_has_its_own_separator() -> None:
    assert write(Parameter("c", Place.QUERY, "form", separators=("|", ",")), [["a", "b|c"], ["d"]]) == "c=a,b%7Cc%7Cd"


@pytest.mark.parametrize(("place", "style"), [(Place.QUERY, "form"), (Place.PATH, "simple"), (Place.COOKIE, "form")])
@pytest.mark.parametrize("reserved", [False, True])
def test_lone_surrogate_is_refused_instead_of_replaced(place: Place, style: str, reserved: bool) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        write(Parameter("c", place, style, reserved=reserved), "\ud800")
