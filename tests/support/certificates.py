"""A policy for certificates."""

from datetime import timedelta

from sharder.tls.rotation import Policy

POLICY = Policy(
    names=("webhook.sharding-system.svc", "127.0.0.1"),
    validity=timedelta(days=90),
    rotate_before=timedelta(days=30),
)
