"""Sequences of requests that an API server in memory and a real one answer equally."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from sharder.core.api.meta import Json
from sharder.sdk.testing.storage import Tree
from tests.support.answers import LEASES, MAPS, METADATA, METADATA_LIST, SITES, Play

ONE_MAP: Final = f"{MAPS}/one"
ONE_SITE: Final = f"{SITES}/one"


def a_map(name: str = "one", **metadata: Json) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1"},
    }


def a_site(name: str = "one", **fields: Json) -> Tree:
    return {
        "apiVersion": "contract.example.com/v1",
        "kind": "Site",
        "metadata": {"name": name},
        "spec": {"a": 1},
        **fields,
    }


def labels(**values: str | None) -> Tree:
    return {"metadata": {"labels": dict(values)}}


def version_of(tree: Tree) -> str:
    metadata = tree["metadata"]
    assert isinstance(metadata, Mapping)
    return str(metadata["resourceVersion"])


def uid_of(tree: Tree) -> str:
    metadata = tree["metadata"]
    assert isinstance(metadata, Mapping)
    return str(metadata["uid"])


def at(version: str, tree: Tree) -> Tree:
    """Return the body with a resourceVersion."""
    metadata = tree.get("metadata")
    assert isinstance(metadata, Mapping)
    return {**tree, "metadata": {**metadata, "resourceVersion": version}}


async def objects_come_and_go(play: Play) -> None:
    await play.get(ONE_MAP)
    await play.create(MAPS, a_map())
    await play.create(MAPS, a_map())
    await play.get(ONE_MAP)
    await play.get(MAPS)
    await play.delete(ONE_MAP)
    await play.delete(ONE_MAP)
    await play.get(ONE_MAP)
    await play.create(MAPS, a_map())
    await play.get(MAPS, limit="500")


async def custom_objects_come_and_go(play: Play) -> None:
    await play.create(SITES, a_site(status={"ready": True}))
    await play.create(SITES, a_site())
    await play.get(SITES)
    await play.delete(ONE_SITE)
    await play.patch(ONE_SITE, labels(a="1"))


async def replacing(play: Play) -> None:
    first = await play.create(MAPS, a_map(labels={"a": "1"}))
    await play.replace(ONE_MAP, {**a_map(), "data": {"b": "2"}})
    await play.replace(ONE_MAP, at(version_of(first), a_map()))
    await play.replace(f"{MAPS}/other", a_map("other"))
    await play.replace(ONE_MAP, a_map("other"))
    await play.replace(ONE_MAP, a_map(namespace="elsewhere"))
    await play.replace(ONE_MAP, a_map(uid="another"))
    site = await play.create(SITES, a_site())
    await play.replace(ONE_SITE, a_site())
    site = await play.replace(ONE_SITE, at(version_of(site), a_site(spec={"a": 2})))
    await play.replace(ONE_SITE, at(version_of(site), a_site(spec={"a": 2})))
    await play.replace(ONE_SITE, at(version_of(site), a_site(status={"no": 1}, spec={"a": 2})))


async def patching(play: Play) -> None:
    await play.create(MAPS, a_map(labels={"a": "1", "b": "2"}))
    await play.patch(ONE_MAP, {"metadata": {"labels": {"a": None, "c": "3"}}})
    await play.patch(ONE_MAP, {"data": {"a": None, "b": "2"}})
    await play.patch(ONE_MAP, {"data": {"b": "2"}})
    await play.patch(ONE_MAP, {"data": None})
    await play.patch(ONE_MAP, labels(b=None, c=None))
    await play.patch(ONE_MAP, {"metadata": {"uid": "another"}})
    await play.patch(f"{MAPS}/missing", labels(a="1"))
    await play.patch(ONE_MAP, {"metadata": {"annotations": {"a": ""}}})


async def guards(play: Play) -> None:
    old = await play.create(MAPS, a_map())
    new = await play.patch(ONE_MAP, labels(a="1"))
    await play.patch(ONE_MAP, at(version_of(old), labels(a="2")))
    await play.patch(ONE_MAP, at(version_of(new), labels(a="3")))
    await play.delete(ONE_MAP, uid="another")
    await play.delete(ONE_MAP, resourceVersion=version_of(new))
    latest = await play.get(ONE_MAP)
    await play.patch(ONE_MAP, at(version_of(old), labels(a="3")))
    await play.delete(ONE_MAP, uid=uid_of(latest), resourceVersion=version_of(latest))
    await play.create(MAPS, at(version_of(old), a_map()))


async def names(play: Play) -> None:
    made = await play.create(MAPS, {"metadata": {"generateName": "many-"}})
    again = await play.create(MAPS, {"metadata": {"generateName": "many-"}})
    assert made["metadata"] != again["metadata"]
    await play.create(MAPS, {"metadata": {}})
    await play.create(MAPS, {"metadata": {"name": "one", "namespace": "elsewhere"}})
    await play.create(SITES, {**a_site(), "metadata": {"generateName": "site-"}})


async def generations(play: Play) -> None:
    await play.create(SITES, a_site())
    await play.patch(ONE_SITE, labels(a="1"))
    await play.patch(ONE_SITE, {"spec": {"a": 2}})
    await play.patch(ONE_SITE, {"metadata": {"generation": 9}})
    await play.patch(ONE_SITE, {"status": {"ready": True}})
    await play.patch(f"{ONE_SITE}/status", {"status": {"ready": True}, "spec": {"a": 3}})
    await play.patch(f"{ONE_SITE}/status", {**labels(b="1"), "status": {"ready": False}})
    await play.get(f"{ONE_SITE}/status")
    site = await play.patch(ONE_SITE, {"spec": {"a": 4}})
    await play.replace(f"{ONE_SITE}/status", at(version_of(site), a_site(status={"b": 1})))
    await play.get(ONE_SITE)


async def finalizers(play: Play) -> None:
    await play.create(SITES, {**a_site(), "metadata": {"name": "one", "finalizers": ["x.y/z"]}})
    await play.delete(ONE_SITE)
    await play.delete(ONE_SITE)
    await play.patch(ONE_SITE, {"metadata": {"finalizers": ["x.y/z", "x.y/new"]}})
    await play.patch(ONE_SITE, {"metadata": {"deletionTimestamp": None}})
    await play.patch(ONE_SITE, labels(a="1"))
    await play.patch(ONE_SITE, {"metadata": {"finalizers": []}})
    await play.get(ONE_SITE)
    await play.create(MAPS, a_map(finalizers=["x.y/z"]))
    await play.delete(ONE_MAP)
    await play.patch(ONE_MAP, {"metadata": {"finalizers": None}})
    await play.get(ONE_MAP)
    stamp = "2026-01-01T00:00:00Z"
    await play.create(MAPS, a_map(deletionTimestamp=stamp, creationTimestamp=stamp, uid="mine"))


async def owners(play: Play) -> None:
    parent = await play.create(SITES, a_site())
    reference: Json = {
        "apiVersion": "contract.example.com/v1",
        "kind": "Site",
        "name": "one",
        "uid": uid_of(parent),
        "controller": True,
    }
    await play.create(MAPS, a_map(ownerReferences=[reference]))
    await play.patch(ONE_MAP, {"metadata": {"ownerReferences": []}})


async def selecting(play: Play) -> None:
    await play.create(MAPS, a_map("a", labels={"team": "red", "size": "1"}))
    await play.create(MAPS, a_map("b", labels={"team": "blue"}))
    await play.create(MAPS, a_map("c"))
    for selector in (
        "team",
        "!team",
        "team=red",
        "team == red",
        "team!=red",
        "team in (red, blue),size",
        "team notin (red)",
        "team=red,size=2",
        "team in (red",
        "=red",
    ):
        await play.get(MAPS, labelSelector=selector)
    for selector in ("metadata.name=a", "metadata.name!=a", "metadata.namespace=NS"):
        await play.get(MAPS, fieldSelector=selector)
    await play.get(MAPS, fieldSelector="data.a=1")
    await play.get(SITES, labelSelector="team")


async def paging(play: Play) -> None:
    for name in "abcde":
        await play.create(MAPS, a_map(name))
    page = await play.get(MAPS, limit="2")
    token = token_of(page)
    await play.delete(f"{MAPS}/c")
    await play.create(MAPS, a_map("f"))
    page = await play.get(MAPS, limit="2", **{"continue": token})
    await play.get(MAPS, limit="2", **{"continue": token_of(page)})
    await play.get(MAPS, limit="5")
    await play.get(MAPS, limit="3", labelSelector="!x")
    await play.get(MAPS, limit="2", **{"continue": "no token"})


def token_of(page: Tree) -> str:
    metadata = page["metadata"]
    assert isinstance(metadata, Mapping)
    return str(metadata["continue"])


async def watching(play: Play) -> None:
    start = version_of(await play.get(MAPS))
    await play.create(MAPS, a_map("a", labels={"on": "yes"}))
    await play.create(MAPS, a_map("b"))
    await play.patch(f"{MAPS}/b", labels(on="yes"))
    await play.patch(f"{MAPS}/a", {"data": {"a": "2"}})
    await play.patch(f"{MAPS}/a", labels(on="no"))
    await play.patch(f"{MAPS}/a", labels(on=None))
    await play.delete(f"{MAPS}/b")
    last = await play.create(MAPS, a_map("c", labels={"on": "yes"}))
    await play.watch(MAPS, 8, resourceVersion=start)
    await play.watch(MAPS, 6, resourceVersion=start, labelSelector="on=yes")
    await play.watch(MAPS, 3, resourceVersion=start, labelSelector="!on")
    await play.watch(MAPS, 3, resourceVersion=start, fieldSelector="metadata.name=b")
    await play.watch(MAPS, 3, accept=METADATA, resourceVersion=start, labelSelector="on")
    await play.watch(MAPS, 2)
    await play.watch(MAPS, 2, resourceVersion="0")
    await play.patch(f"{MAPS}/c", labels(a="1"))
    await play.watch(MAPS, 1, resourceVersion=version_of(last))


async def expiring(play: Play) -> None:
    first = await play.create(MAPS, a_map("a"))
    await play.create(MAPS, a_map("b"))
    page = await play.get(MAPS, limit="1")
    await play.forget(MAPS, SITES, LEASES)
    await play.watch(MAPS, 1, resourceVersion=version_of(first))
    await play.get(MAPS, limit="1", **{"continue": token_of(page)})


async def watching_custom_objects(play: Play) -> None:
    start = version_of(await play.get(SITES))
    finalized: Tree = {**a_site(), "metadata": {"name": "one", "finalizers": ["x.y/z"]}}
    await play.create(SITES, finalized)
    await play.patch(f"{ONE_SITE}/status", {"status": {"ready": True}})
    await play.delete(ONE_SITE)
    await play.patch(ONE_SITE, {"metadata": {"finalizers": []}})
    await play.watch(SITES, 4, resourceVersion=start)
    await play.watch(SITES, 4, accept=METADATA, resourceVersion=start)


async def metadata_only(play: Play) -> None:
    await play.send("POST", MAPS, a_map(labels={"a": "1"}), accept=METADATA)
    await play.send("GET", ONE_MAP, accept=METADATA)
    await play.send("GET", MAPS, accept=METADATA_LIST)
    await play.create(SITES, a_site())
    await play.send("GET", ONE_SITE, accept=METADATA)
    await play.send("GET", SITES, accept=METADATA_LIST)
    await play.send("GET", f"{MAPS}/missing", accept=METADATA)


async def leases(play: Play) -> None:
    spec: Tree = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-03-01T12:00:00.000120Z",
    }
    lease = await play.create(LEASES, {"metadata": {"name": "one"}, "spec": spec})
    path = f"{LEASES}/one"
    for holder in ("b", "c"):
        body: Tree = {"metadata": {}, "spec": {"holderIdentity": holder}}
        await play.patch(path, at(version_of(lease), body))
    await play.patch(path, {"spec": {"holderIdentity": ""}})
    await play.delete(path)


async def applying(play: Play) -> None:
    await play.apply(ONE_MAP, a_map(labels={"a": "1"}, annotations={"x": "y"}))
    await play.apply(ONE_MAP, a_map(labels={"b": "1"}))
    await play.apply(ONE_MAP, a_map(labels={"b": "1"}))
    await play.apply(ONE_MAP, {**a_map(), "data": {"b": "2"}}, manager="two")
    await play.apply(ONE_MAP, {**a_map(), "data": {}}, manager="one")
    await play.apply(ONE_MAP, {**a_map(), "data": {}}, manager="two")
    await play.apply(ONE_SITE, a_site(spec={"a": {"b": 1, "c": 2}}))
    await play.apply(ONE_SITE, a_site(spec={"a": {"c": 3}}))
    await play.patch(ONE_SITE, {"spec": {"other": 1}})
    await play.apply(ONE_SITE, a_site(spec={"a": {"c": 3}}))


async def trying(play: Play) -> None:
    await play.create(MAPS, a_map(), dryRun="All")
    await play.get(ONE_MAP)
    await play.create(MAPS, a_map())
    await play.patch(ONE_MAP, labels(a="1"))
    await play.patch(ONE_MAP, labels(a="2"), dryRun="All")
    await play.get(ONE_MAP)


async def what_is_not_served(play: Play) -> None:
    await play.send("GET", "/apis/contract.example.com/v1/namespaces/NS/nothing")
    await play.send("POST", ONE_MAP, a_map())
    await play.send("PUT", MAPS, a_map())
    await play.send("PATCH", ONE_MAP, labels(a="1"))
    await play.send("POST", MAPS, [])


Sequence = Callable[[Play], Awaitable[None]]
SEQUENCES: Final[tuple[Sequence, ...]] = (
    objects_come_and_go,
    custom_objects_come_and_go,
    replacing,
    patching,
    guards,
    names,
    generations,
    finalizers,
    owners,
    selecting,
    paging,
    watching,
    expiring,
    watching_custom_objects,
    metadata_only,
    leases,
    applying,
    trying,
    what_is_not_served,
)
