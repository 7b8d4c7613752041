"""Go over a ring's objects, list by list, and move those that need it; all by one snapshot."""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.clock import Clock
from sharder.controllers.mistakes import Mistakes
from sharder.controllers.movement.batch import batch
from sharder.controllers.movement.cover import Cover
from sharder.controllers.movement.drains import Withheld
from sharder.controllers.movement.failures import HeldBack
from sharder.controllers.movement.following import Following
from sharder.controllers.movement.listing import stream
from sharder.controllers.movement.moves import Decide, Mover
from sharder.controllers.movement.muster import Muster
from sharder.controllers.movement.patience import LOOK_SECONDS, Patience
from sharder.controllers.movement.rights import naming_the_rule
from sharder.controllers.movement.waiting import Flow, Subject
from sharder.errors import ApiError, Expired, InvalidObject, NotFound
from sharder.names import GroupResource, ObjectRef
from sharder.plan import Assign, Keep, Relabel, Step
from sharder.ports import Objects
from sharder.snapshot import RingSnapshot, Role

AT_ONCE = 100
"""Controlled objects whose owners are read together."""


class Sweep:
    """What the parts of a pass have in common: how it reads and moves, and what came of it."""

    def __init__(
        self,
        snapshot: RingSnapshot,
        *,
        cover: Cover,
        objects: Objects,
        mover: Mover,
        mistakes: Mistakes,
        clock: Clock,
    ) -> None:
        """`cover` shows everything in scope; what lies outside costs little then."""
        self.muster = Muster(snapshot)
        self.patience = Patience(snapshot, mover=mover, clock=clock)
        self.problem: str | None = None
        self.expired: Expired | None = None
        """A list took too long, which is nobody's fault: not all objects were seen."""
        self.left_behind = dict[str, ObjectRef]()
        """Owners of what could not be written, by uid: they are to wait for it."""
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._mistakes = mistakes
        self._cover = cover
        self._clock = clock

    async def move_main(self, resource: Resource, labels: str, decide: Decide) -> None:
        """Move objects of a main resource, and take note of each on the way."""

        def noting(obj: PartialObject) -> Step:
            step = decide(obj)
            self.muster.note(obj, step)
            self._mistakes.look(self._snapshot, obj)
            return step

        await self.move_all(resource, labels, decide, first=noting)

    async def move_all(
        self, resource: Resource, labels: str, decide: Decide, *, first: Decide | None = None
    ) -> None:
        """Move what matches.

        `first` is asked instead of `decide` whether there is anything to do with an object.
        """
        first, role = first or decide, self._snapshot.roles[resource.id]
        with naming_the_rule(resource.id):
            async with batch(self._mover.limit) as writes:
                async for obj in self.stream(resource, labels):
                    self._mover.check(self._snapshot)
                    if self._snapshot.selects(obj, role) and not isinstance(first(obj), Keep):
                        await writes.add(self.move(resource, obj, decide))

    async def move_controlled(self, resource: Resource, labels: str, decide: Decide) -> None:
        """Move what matches; what would leave a shard that works goes by its owner as read now.

        What is known of owners is as old as their list.  One that came since, or is of a resource
        that does not list what it controls, may be at work where that is.
        """
        leaving, role = list[PartialObject](), self._snapshot.roles[resource.id]

        def first(obj: PartialObject) -> Step:
            step = decide(obj)
            if not isinstance(step, Relabel):
                return step
            leaving.append(obj)
            return Keep("its owner is read first")

        with naming_the_rule(resource.id):
            async with batch(self._mover.limit) as writes:
                async for obj in self.stream(resource, labels):
                    self._mover.check(self._snapshot)
                    if self._snapshot.selects(obj, role) and not isinstance(first(obj), Keep):
                        await writes.add(self.move(resource, obj, first))
                    if len(leaving) >= AT_ONCE:
                        await self._follow(resource, leaving)
            await self._follow(resource, leaving)

    async def _follow(self, resource: Resource, leaving: list[PartialObject]) -> None:
        if not leaving:
            return
        found, leaving[:] = list(leaving), []
        following = Following(self._snapshot, objects=self._objects, mover=self._mover)
        await following.run(resource, found)
        self.left_behind |= following.left_behind

    async def stream(
        self, resource: Resource, labels: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        """Yield the objects of a resource that match."""
        async with aclosing(stream(self._objects, resource, self._cover, labels)) as objects:
            async for obj in objects:
                yield obj

    async def move(self, resource: Resource, obj: PartialObject, decide: Decide) -> None:
        """Move one object; one that cannot be written is tried again by itself."""
        try:
            step = await self._mover.try_to_move(self._snapshot, resource, obj, decide)
        except Withheld as error:
            self.patience.add(resource, obj, decide, error)
        except (ApiError, InvalidObject, HeldBack) as error:
            self.muster.failed(error)
            if self._snapshot.roles[resource.id] is Role.CONTROLLED:
                self._keep_owner(resource, obj)
            elif isinstance(decide(obj), Assign):
                self.muster.left(obj)
        else:
            self.muster.carried_out(obj, step)

    def _keep_owner(self, resource: Resource, obj: PartialObject) -> None:
        reference = obj.metadata.controller
        subject = Subject(Flow(self._snapshot.name, resource.id), obj.metadata.ref)
        if reference is not None and self._mover.failures.keeps_owner(subject):
            self.left_behind[reference.uid] = ObjectRef(obj.metadata.namespace, reference.name)

    async def wait(self) -> None:
        """Move what was withheld as soon as there is room, as long as it is worth waiting."""
        while self.patience.lasts():
            await self._clock.sleep(LOOK_SECONDS)
            self._mover.check(self._snapshot)
            async with batch(self._mover.limit) as writes:
                for resource, obj, decide in self.patience.take():
                    await writes.add(self.move(resource, obj, decide))

    async def noting(self, resource: GroupResource, work: Awaitable[None]) -> None:
        """Let the other resources go on when one cannot be read."""
        try:
            await work
        except Expired as error:
            self.expired = error
        except ApiError as error:
            self.unreadable(resource, error)

    def unreadable(self, resource: GroupResource, error: ApiError) -> None:
        """Remember the first problem; `resource` or what it controls cannot be looked after."""
        hint = "; correct spec.resources, or install it" if isinstance(error, NotFound) else ""
        self.problem = self.problem or f"cannot read {resource}: {error}{hint}"

    async def find(self, resource: GroupResource) -> Resource:
        """Return the resource as it is served."""
        with naming_the_rule(resource):
            return await self._objects.find(resource)
