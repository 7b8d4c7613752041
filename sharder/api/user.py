"""Users as the API server knows them."""

import msgspec


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a request: what rights are bound to, and what authorizers may look at."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
