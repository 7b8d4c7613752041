"""The errors of this project, by who has to act.

    SharderError
    ├── ConfigError      the operator: settings, flags, kubeconfig
    ├── InvalidObject    its author: an object that cannot be understood
    ├── ApiError         the API server rejected or failed a request
    │   ├── Conflict     read again now: another client wrote first
    │   ├── NotFound     read again now: the object does not exist
    │   ├── Expired      list again: the resource version is too old (410)
    │   │   └── Rewound  list again: the server has not reached the version any more
    │   ├── Forbidden    the operator: grant the verb on the resource
    │   ├── Rejected     its author or the operator: the write is invalid (400, 422)
    │   └── Unavailable  back off: server busy, unreachable or broken
    └── LeaseLost        stop work: another process holds the Lease, or might hold it

The type of an error decides what happens next, never its text.  A message says what failed, on
which object, and what to do.
"""


class SharderError(Exception):
    """The base class of all errors that this project raises on purpose."""


class ConfigError(SharderError):
    """The settings are wrong; the message is for the operator and fits on one line."""


class InvalidObject(SharderError):
    """An object from the cluster does not have the required shape."""


class ApiError(SharderError):
    """The API server rejected or failed a request."""


class Conflict(ApiError):
    """Another client wrote first, or the object to create already exists (409)."""


class NotFound(ApiError):
    """The object, its namespace or its resource does not exist (404)."""


class Expired(ApiError):
    """The resource version is too old for a watch or the next page: list again (410)."""


class Rewound(Expired):
    """The API server is at a version below one that it has shown: etcd was restored."""


class Forbidden(ApiError):
    """The identity lacks a right, or was not authenticated (401, 403)."""


class Rejected(ApiError):
    """The server rejects this request, and would reject it again (other 4xx)."""


class Unavailable(ApiError):
    """The server cannot be reached or is overloaded; a retry can succeed."""


class LeaseLost(SharderError):
    """Another process holds the Lease, or the Lease could not be renewed in time."""
