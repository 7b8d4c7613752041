"""An operator on kopf that prints which things it has handled; run it by `kopf run`."""

import os
import sys

import kopf

import sharder.kopf

RESOURCE = os.environ["RESOURCE"]
WORKED = "handled "

sharder.kopf.join(ring=os.environ["RING"], resources=[RESOURCE])


@kopf.on.create(RESOURCE)
@kopf.on.update(RESOURCE)
@kopf.on.resume(RESOURCE)
def work(name: str, **_: object) -> None:
    sys.stdout.write(f"{WORKED}{name}\n")
    sys.stdout.flush()
