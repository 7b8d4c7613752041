"""Facts about the tokens of `sharder.tls.bundle`, which only API servers know."""

from sharder.tls.bundle import is_one_of, token_of


def test_a_token_can_be_a_segment_of_a_path_and_comes_from_the_key_alone() -> None:
    token = token_of(b"key")

    assert token == token_of(b"key") != token_of(b"another key")
    assert len(token) == 32
    assert set(token) <= set("0123456789abcdef")
    assert token_of(b"") == ""


def test_only_a_whole_token_is_one() -> None:
    token = token_of(b"key")

    assert is_one_of(token, ("other", token))
    assert not any(is_one_of(given, (token,)) for given in ("", token[:-1], token + "0", "é"))
    assert not is_one_of("", ())
