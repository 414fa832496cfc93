"""concurrent.futures: threads that parse and write JSON."""

import concurrent.futures
import json

import pace


def task(n):
    return len(json.dumps(json.loads(json.dumps({str(i): [i, str(i)] for i in range(n)}))))


with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for step in pace.steps():
        list(pool.map(task, [500 + 10 * (step % 9)] * 20))
