"""The controller that `hack.measure_sdk` measures: `python -m hack.idle_controller MODE SHARD`.

MODE is `kopf`, `cache` (the SDK with a cache) or `reads` (the SDK without a cache).
After new reconciles it prints a line with two numbers: the objects that it has reconciled, and
the reconciles.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import kopf
import msgspec

from sharder.core.names import RingName, owner_label
from sharder.sdk import LeaseTiming, Request, Settings, Shard

RING: Final = "measured"
OWNER: Final = owner_label(RingName(RING))


@dataclass(slots=True)
class Count:
    """The objects that the controller has reconciled, and how often."""

    names: set[str] = field(default_factory=set)
    reconciles: int = 0

    def add(self, name: str) -> None:
        """Count a reconcile of the object with this name."""
        self.names.add(name)
        self.reconciles += 1

    def report(self) -> None:
        """Print both numbers after new reconciles, at most four times a second; never return."""
        printed = 0
        while True:
            time.sleep(0.25)
            if self.reconciles > printed:
                printed = self.reconciles
                print(len(self.names), printed, flush=True)


class Secret(msgspec.Struct):
    """The part of a Secret that the controller reads."""

    data: dict[str, str] = {}


def run_sdk(shard: str, count: Count, cache: tuple[str, ...]) -> None:
    """Run the controller on the SDK until SIGTERM, with `cache` as the cached resources."""

    async def reconcile(request: Request) -> None:
        data = dict.fromkeys((await request.get(Secret)).data, "present")
        metadata = {"name": request.ref.name}
        await request.ensure(
            {"kind": "ConfigMap", "metadata": metadata, "data": data}, replace=["data"]
        )
        count.add(request.ref.name)

    timing = LeaseTiming(lease_duration=60, renew_deadline=40, retry_period=8)
    settings = Settings(
        name=shard, namespace="default", lease=timing, kubeconfig=os.environ["KUBECONFIG"]
    )
    replica = Shard(ring=RING, settings=settings)
    replica.reconciler("secrets", reconcile, owns=["configmaps"], cache=cache)
    replica.run()


def _is_watched(resource: kopf.Resource) -> bool:
    return resource.plural in {"secrets", "configmaps"}


def run_kopf(shard: str, count: Count) -> None:
    """Run the same controller on kopf, which watches the same objects."""

    @kopf.on.startup()
    def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        # The selector must not apply to Namespaces: none has the label, so kopf would find none.
        settings.watching.label_selectors[_is_watched] = f"{OWNER}={shard}"
        settings.posting.enabled = False

    @kopf.index("configmaps", id="known")
    def known(name: str, body: kopf.Body, **_: object) -> Mapping[str, Mapping[str, str]]:
        return {name: dict(body.get("data") or {})}

    @kopf.on.create("secrets")
    @kopf.on.update("secrets")
    @kopf.on.resume("secrets")
    async def reconcile(name: str, body: kopf.Body, **indices: object) -> None:
        data, index = dict.fromkeys(body.get("data") or {}, "present"), indices["known"]
        if not isinstance(index, kopf.Index) or [*index[name]] != [data]:
            raise kopf.PermanentError(f"{name} has another ConfigMap")
        count.add(name)

    kopf.run(standalone=True, namespaces=["default"])


def main() -> None:
    """Run the controller in the mode of the command line."""
    mode, shard = sys.argv[1:]
    count = Count()
    threading.Thread(target=count.report, daemon=True).start()
    if mode == "kopf":
        run_kopf(shard, count)
    else:
        run_sdk(shard, count, ("secrets", "configmaps") if mode == "cache" else ())


if __name__ == "__main__":
    main()
