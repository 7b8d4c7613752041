"""What goes wrong between the sharder and the API server."""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from sharder.core.names import GroupResource
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.requests import Client as User
from tests.stage.actors import SHARDER
from tests.stage.stage import Stage

Allows: TypeAlias = Callable[[User, str, GroupResource, str], bool]


class FaultyStage(Stage):
    """A stage on which requests of the sharder fail as a story says."""

    def refuse(
        self,
        code: int,
        name: str = "",
        *,
        method: str = "PATCH",
        part: str = "",
        message: str = "refused",
    ) -> Callable[[], None]:
        """Refuse requests of the sharder until the result is called; `part` is one of the path."""

        def refuses(call: Call) -> bool:
            ends = not name or call.path.endswith(f"/{name}")
            return call.method == method and ends and part in call.path

        async def hook(call: Call) -> None:
            if refuses(call):
                raise Refused(code, message)

        return self.intercept(hook)

    def intercept(self, hook: Callable[[Call], Awaitable[None]]) -> Callable[[], None]:
        """Call it before each request of the sharder, until the result is called."""
        links = [replica.link for replica in self.replicas.values()]
        for link in links:
            link.before.append(hook)

        def end() -> None:
            for link in links:
                link.before.remove(hook)

        return end

    def before(self, method: str, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Act once, right before the sharder's next request of this kind for this object."""
        left = [act]

        async def hook(call: Call) -> None:
            if left and call.method == method and call.path.endswith(f"/{name}"):
                await left.pop()()

        self.intercept(hook)

    def forbid(self, verb: str, *resources: GroupResource) -> None:
        """Take a right from the sharder, and end its watches of that."""
        for server in self.servers:
            server.allows = _without(server.allows, verb, resources)
            for resource in resources:
                server.hang_up(resource)

    def permit(self) -> None:
        """Give all rights back."""
        for server in self.servers:
            server.allows = lambda *_: True


def _without(allows: Allows, verb: str, resources: Collection[GroupResource]) -> Allows:
    def fewer(user: User, asked: str, of: GroupResource, namespace: str) -> bool:
        is_taken = user.username == SHARDER and asked == verb and of in resources
        return not is_taken and allows(user, asked, of, namespace)

    return fewer
