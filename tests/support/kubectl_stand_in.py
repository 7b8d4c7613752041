"""kubectl for a cluster without kubelets: `port-forward` leads to the port in FORWARD_TO.

KUBECTL names the real program, which does all else.
"""

import asyncio
import os
import sys


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    there, back = await asyncio.open_connection("127.0.0.1", int(os.environ["FORWARD_TO"]))
    async with asyncio.TaskGroup() as group:
        group.create_task(pump(reader, back))
        group.create_task(pump(there, writer))


async def forward(port: int) -> None:
    async with await asyncio.start_server(lead, "127.0.0.1", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] != "port-forward":
        os.execv(os.environ["KUBECTL"], sys.argv)  # noqa: S606
    asyncio.run(forward(int(sys.argv[3].partition(":")[0])))
