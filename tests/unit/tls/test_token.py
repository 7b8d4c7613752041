"""Facts about the tokens of `sharder.tls.bundle`, which only API servers know."""

from datetime import UTC, datetime, timedelta

from sharder.tls.bundle import is_one_of, token_of, tokens_of
from sharder.tls.rotation import Policy, Step, carry_out, new_bundle

NOW = datetime(2026, 11, 22, tzinfo=UTC)
POLICY = Policy(names=["sharder"], validity=timedelta(days=90), rotate_before=timedelta(days=30))


def test_a_token_can_be_a_segment_of_a_path_and_comes_from_the_key_alone() -> None:
    token = token_of(b"key")

    assert token == token_of(b"key") != token_of(b"another key")
    assert len(token) == 32
    assert set(token) <= set("0123456789abcdef")
    assert token_of(b"") == ""


def test_while_an_authority_is_replaced_every_step_keeps_the_token_that_is_written() -> None:
    stable = new_bundle(POLICY, NOW)
    introducing = carry_out(Step.INTRODUCE, stable, POLICY, NOW)
    retiring = carry_out(Step.SWITCH, introducing, POLICY, NOW)
    again = carry_out(Step.RETIRE, retiring, POLICY, NOW)

    (old,), (new, *others) = tokens_of(stable), tokens_of(introducing)

    assert others == [old] != [new]
    assert tokens_of(retiring) == tokens_of(again) == (new,)


def test_only_a_whole_token_is_one() -> None:
    token = token_of(b"key")

    assert is_one_of(token, ("other", token))
    assert not any(is_one_of(given, (token,)) for given in ("", token[:-1], token + "0", "é"))
    assert not is_one_of("", ())
