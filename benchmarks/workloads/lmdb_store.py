"""lmdb_store.py setup|run: see the script `lmdb`."""

import random
import sys

import lmdb

SIZE = 128 << 20
rng = random.Random(sys.argv[1])


def key():
    return b"%012d" % rng.randrange(60_000)


def put(env, transactions, count):
    for _ in range(transactions):
        with env.begin(write=True) as transaction:
            for _ in range(count):
                transaction.put(key(), rng.randbytes(rng.randint(50, 700)))


if sys.argv[1] == "setup":
    for name in ("written", "mapped"):
        with lmdb.open(name, map_size=SIZE, sync=False) as env:
            put(env, 40, 1000)
else:
    with lmdb.open("written", map_size=SIZE) as env:
        with env.begin() as transaction:
            for _ in range(800):
                transaction.get(key())
        put(env, 120, 20)
    with lmdb.open("mapped", map_size=SIZE, writemap=True) as env:
        put(env, 60, 20)
        with env.begin() as transaction, transaction.cursor() as cursor:
            cursor.set_range(b"%012d" % 20_000)
            total = sum(len(value) for _, (_, value) in zip(range(8_000), cursor))
    assert total > 0
