"""dict, list and json churn: what a data loader does between steps. Usage: pychurn.py [ROUNDS]"""

import json
import sys


def record(i):
    return {"id": i, "name": f"item-{i}", "values": list(range(i % 40)), "tags": [str(j) for j in range(i % 7)]}


def round_trip(n):
    rows = [record(i) for i in range(n)]
    text = json.dumps(rows)
    back = json.loads(text)
    index = {row["name"]: row for row in back}
    return len(text) + len(index)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    total = 0
    for _ in range(rounds):
        total += round_trip(3000)
        keep = [dict.fromkeys(range(50)) for _ in range(2000)]
        total += sum(map(len, keep))
    print(total)


main()
