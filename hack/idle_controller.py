"""The controller that `hack.measure_sdk` measures: `python -m hack.idle_controller MODE SHARD`.

It prints how many objects it has reconciled, and how often, each time that this has grown.
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
    """What the controller has reconciled."""

    names: set[str] = field(default_factory=set)
    reconciles: int = 0

    def add(self, name: str) -> None:
        """Count a reconcile that has found nothing to do."""
        self.names.add(name)
        self.reconciles += 1

    def report(self) -> None:
        """Print it four times a second, if it has grown."""
        printed = 0
        while True:
            time.sleep(0.25)
            if self.reconciles > printed:
                printed = self.reconciles
                print(len(self.names), printed, flush=True)


class Secret(msgspec.Struct):
    """What the controller reads."""

    data: dict[str, str] = {}


def run_sdk(shard: str, count: Count, cache: tuple[str, ...]) -> None:
    """Work until SIGTERM."""

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
    """Do the same by the means of kopf, which watches the same objects."""

    @kopf.on.startup()
    def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        # Without Namespaces: kopf would find none.
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
    """Run the controller of a mode."""
    mode, shard = sys.argv[1:]
    count = Count()
    threading.Thread(target=count.report, daemon=True).start()
    if mode == "kopf":
        run_kopf(shard, count)
    else:
        run_sdk(shard, count, ("secrets", "configmaps") if mode == "cache" else ())


if __name__ == "__main__":
    main()
