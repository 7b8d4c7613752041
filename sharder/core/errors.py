"""What can go wrong, by who has to act.

    SharderError
    ├── ConfigError      the operator: settings, flags, kubeconfig
    ├── InvalidObject    its author: an object that cannot be understood
    ├── ApiError         the API server said no
    │   ├── Conflict     look again now: somebody else wrote first
    │   ├── NotFound     look again now: it is not (or no longer) there
    │   ├── Expired      list again: the watch window has passed (410)
    │   ├── Forbidden    the operator: grant the verb on the resource
    │   ├── Rejected     its author or the operator: the write is invalid (400, 422)
    │   └── Unavailable  back off: server busy, unreachable or broken
    └── LeaseLost        stop work: the Lease is or may be somebody else's

The type decides what happens next, never the text.  A message says what failed, on which
object, and what to do.
"""


class SharderError(Exception):
    """Root of the errors that this project raises on purpose."""


class ConfigError(SharderError):
    """The settings are wrong; the message is for the operator and fits on one line."""


class InvalidObject(SharderError):  # noqa: N818 - reads as a fact, like its siblings
    """An object from the cluster does not have the shape it must have."""


class ApiError(SharderError):
    """The API server refused or failed a request."""


class Conflict(ApiError):  # noqa: N818
    """A guarded write lost the race, or the object to create exists already (409)."""


class NotFound(ApiError):  # noqa: N818
    """The object, its namespace or its resource does not exist (404)."""


class Expired(ApiError):  # noqa: N818
    """The resource version is too old to watch or page from: list again (410)."""


class Forbidden(ApiError):  # noqa: N818
    """The identity lacks a right, or is not accepted at all (401, 403)."""


class Rejected(ApiError):  # noqa: N818
    """The server will not take this request however often it is sent (other 4xx)."""


class Unavailable(ApiError):  # noqa: N818
    """The server cannot be reached or is overloaded; the same request may pass later."""


class LeaseLost(SharderError):  # noqa: N818
    """The Lease is held by somebody else, or could not be renewed in time."""
