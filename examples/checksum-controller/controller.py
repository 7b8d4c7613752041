"""Keep, for every Secret of this shard, a ConfigMap with the SHA-256 of each of its values."""

import argparse
import base64
import hashlib
import json
import logging
import sys
import time
from dataclasses import replace

import msgspec
from typing_extensions import override

from sharder.sdk import ConfigError, Request, Shard, local_settings

FIELDS = ("ring", "shard", "resource", "object", "why", "error")


class Secret(msgspec.Struct):
    """The fields of a Secret that this controller reads; values are in base64."""

    data: dict[str, str] | None = None


async def reconcile(request: Request) -> None:
    """Write the checksums of the Secret's values into its ConfigMap."""
    if request.metadata.deletion_timestamp:
        return  # the garbage collector deletes the ConfigMap too
    secret = await request.get(Secret)
    checksums = {
        key: hashlib.sha256(base64.b64decode(value)).hexdigest()
        for key, value in (secret.data or {}).items()
    }
    name = f"{request.ref.name}-checksums"
    await request.ensure(
        {"kind": "ConfigMap", "metadata": {"name": name}, "data": checksums}, replace=["data"]
    )


class JsonLines(logging.Formatter):
    """One JSON object per record, with the fields that the SDK adds."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        fields = {field: getattr(record, field) for field in FIELDS if hasattr(record, field)}
        line = {
            "time": record.created,
            # All processes of one machine share this clock, so it can order their merged logs.
            "monotonic": time.monotonic(),  # noqa: TID251 - a record of the moment
            "process": record.process,
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line | fields)


def main() -> None:
    """Run until SIGTERM; flags override the environment."""
    try:
        settings = local_settings()
    except ConfigError as error:
        sys.exit(f"checksum-controller: {error}")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", default=settings.kubeconfig)
    parser.add_argument("--ring", default="checksum")
    parser.add_argument("--name", default=settings.name, help="of the shard and its Lease")
    parser.add_argument("--namespace", default=settings.namespace, help="of the Lease")
    flags = vars(parser.parse_args())

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    shard = Shard(ring=flags.pop("ring"), settings=replace(settings, **flags))
    shard.reconciler("secrets", reconcile, owns=["configmaps"])
    shard.run()


if __name__ == "__main__":
    main()
