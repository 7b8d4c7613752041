"""Print a new authority and, after an empty line, a certificate of it with its key.

A program of its own, which reads the host that the certificate is for: the library that makes them
takes 11 MB, which a proxy would keep.
"""

import sys
from datetime import timedelta

from sharder.runtime.clock import SystemClock
from sharder.tls.issue import issue_serving, make_authority


def main(host: str) -> None:
    """Print them, in PEM."""
    now = SystemClock().now()
    authority = make_authority(now)
    serving = issue_serving(
        authority, names=[host, "localhost"], now=now, validity=timedelta(days=3650)
    )
    parts = (authority.certificate, b"\n", serving.certificate, serving.key)
    sys.stdout.buffer.writelines(parts)


if __name__ == "__main__":
    main(sys.stdin.read())
