"""Addresses in their one normal form."""

from __future__ import annotations

import pytest

from bullpen.net import urls
from bullpen.net.urls import Url, UrlRefused, cargo, follow, parse

NORMAL = {
    "https://example.com": "https://example.com/",
    "  HTTP://Example.COM:80/a?b#c \n": "http://example.com/a?b",
    "https://example.com.:443/": "https://example.com/",
    "https://example.com:8443?x=1": "https://example.com:8443/?x=1",
    "http://bücher.example/straße?q=ä b".replace(" ", "%20"): (
        "http://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%A4%20b"
    ),
    "http://[2606:4700:0:0::1111]:8080/x": "http://[2606:4700::1111]:8080/x",
    "http://8.8.8.8/": "http://8.8.8.8/",
    'http://a.example/<b>"{c}"|^`': "http://a.example/%3Cb%3E%22%7Bc%7D%22%7C%5E%60",
    "http://a.example/%2e%2E/x%20y": "http://a.example/%2e%2E/x%20y",
    "http://a_b.example/": "http://a_b.example/",
    "http://1und1.example/": "http://1und1.example/",
}


@pytest.mark.parametrize("text", NORMAL)
def test_an_address_has_one_form(text: str) -> None:
    """The one that is shown, checked and sent; read again it is the same."""
    assert str(parse(text)) == NORMAL[text]
    assert parse(NORMAL[text]) == parse(text)


def test_a_refusal_says_what_to_do() -> None:
    for text, words in {
        "example.com/x": "begin with https://",
        "ftp://example.com/": "not ftp",
        "http://a b/": "%XX",
        "http://0x7f.1/": "four decimal numbers",
        "http://me:pw@example.com/": "names and passwords",
        "http://example.com:22/": "port 22",
    }.items():
        with pytest.raises(UrlRefused, match=words):
            parse(text)


def test_redirects_are_read_from_where_they_came() -> None:
    base = parse("https://a.example/b/c?d")
    assert [
        str(follow(base, where)) for where in ("e", "/e", "?e", "//f.example/g", "http://h.example", "../e")
    ] == [
        "https://a.example/b/e",
        "https://a.example/e",
        "https://a.example/b/c?e",
        "https://f.example/g",
        "http://h.example/",
        "https://a.example/e",
    ]


def test_what_may_be_data_is_pointed_out() -> None:
    """Long queries, long paths, encoded runs, and names that carry more than a name; not the addresses of everyday."""
    base64 = "QVdTX1NFQ1JFVF9BQ0NFU1NfS0VZPXdKYWxyWFV0bkZFTUk"
    for address in (
        "https://a.example/?q=" + "word+" * 30,
        f"https://a.example/{base64}",
        f"https://a.example/x?k={base64}",
        "https://a.example/" + "p/" * 200,
        "https://4157535f5345435245545f4143434553.a.example/",
        "https://a.b.c.d.e.f.example/",
        "https://a.example/" + "%41" * 20,
    ):
        assert "leaves this machine" in cargo(parse(address)), address
    for address in (
        "https://docs.example.com/en/latest/how-to-write-a-very-long-title-for-a-page-in-the-docs.html",
        "https://git.example.com/o/r/commit/4b9fd8ea4b9fd8ea4b9fd8ea4b9fd8ea4b9fd8ea",
        "https://example.com/search?q=python+ipaddress",
    ):
        assert cargo(parse(address)) == "", address


def test_rules_name_one_place_each() -> None:
    assert urls.places(["wiki.lan:80", "[fd00::1]:8080", "127.0.0.1:3000"]) == {
        ("wiki.lan", 80),
        ("fd00::1", 8080),
        ("127.0.0.1", 3000),
    }
    for rule in ("wiki.lan", "*:80", "http://wiki.lan:80", "wiki.lan:80/x", "10.0.0.0/8:80", "", "a@b:80"):
        with pytest.raises(UrlRefused):
            urls.places([rule])


def test_the_port_is_told_where_it_is_unusual() -> None:
    assert Url("https", "a.example", 443, "/").authority == "a.example"
    assert Url("http", "a.example", 443, "/").authority == "a.example:443"
    assert Url("http", "::1", 81, "/").authority == "[::1]:81"
