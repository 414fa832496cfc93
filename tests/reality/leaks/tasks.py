"""asyncio tasks that wait for replies which never come."""

import asyncio

from pace import steps

waiting = set()


async def request():
    body = bytearray(b"x") * 131_072  # LEAK: 128 KiB
    await asyncio.get_running_loop().create_future()
    return body


async def main():
    for step in steps(pace=0.02):
        waiting.add(asyncio.ensure_future(request()))
        await asyncio.sleep(0.05)


asyncio.run(main())
