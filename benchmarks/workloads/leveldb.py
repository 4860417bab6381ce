"""leveldb.py setup|run: see the script `leveldb`."""

import random
import sys

import plyvel

rng = random.Random(sys.argv[1])
db = plyvel.DB("db", create_if_missing=True, write_buffer_size=1 << 20, compression=None)


def key():
    return b"%012d" % rng.randrange(40_000)


def put(count, sync_each):
    for number in range(count):
        db.put(key(), rng.randbytes(rng.randint(100, 900)), sync=number % sync_each == 0)


if sys.argv[1] == "setup":
    put(60_000, 10**9)
else:
    for _ in range(300):
        db.get(key())
    put(12_000, 100)
    for _ in range(1000):
        db.get(key())
    total = sum(len(value) for _, value in db.iterator(start=b"%012d" % 10_000, stop=b"%012d" % 20_000))
    assert total > 0
db.close()
