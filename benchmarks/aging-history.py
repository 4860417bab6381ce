#!/usr/bin/env python3
"""One day of real activity on a file system, for benchmarks/aging-verify.sh.

usage: aging-history.py git|users|mail DIRECTORY DAY DAYS SEED [AUX]

A day has 24 hours of a fraction of a second each; what was written in one is written back at its end, as the kernel
does in life. Threads work side by side, so that files grow beside each other. What is there is found in the directory
itself. DIRECTORY fills up to about four fifths within a third of the days and is kept between 70 and 85 % full.
AUX is where the git history's own repository lies, outside of the file system.
"""
import ctypes
import os
import random
import shutil
import subprocess
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
DATA = random.Random(1).randbytes(8 << 20)
# How busy the hours of a day are.
HOURS = [1, 0, 0, 0, 0, 0, 1, 2, 4, 6, 6, 5, 3, 5, 6, 6, 5, 4, 3, 2, 2, 1, 1, 1]


class Activity:
    def __init__(self, kind, root, day, days, seed, aux):
        self.kind, self.root, self.day, self.days, self.aux = kind, root, day, days, aux
        self.random = random.Random(f"{kind} {seed} {day}")
        self.number = 0

    def fullness(self):
        space = os.statvfs(self.root)
        return 1 - space.f_bavail / space.f_blocks

    def wanted(self):
        return min(0.15 + 0.63 * 3 * self.day / self.days, 0.78)

    def over(self):
        return self.fullness() > self.wanted()

    def unique(self):
        self.number += 1
        return f"{self.day:03d}{self.number:05d}"

    def run(self):
        getattr(self, "begin_" + self.kind)()
        for hour in range(24):
            getattr(self, "hour_" + self.kind)(hour, HOURS[hour])
            fd = os.open(self.root, os.O_RDONLY)
            LIBC.syncfs(fd)
            os.close(fd)

    def together(self, work, items):
        """One thread for each, each with random numbers of its own."""
        failed = []

        def one(item, rng):
            try:
                work(item, rng)
            except OSError as error:
                # A full disk ends what the program was at.
                if error.errno != 28:
                    failed.append(error)

        threads = [threading.Thread(target=one, args=(i, random.Random(self.random.random()))) for i in items]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    # ---- users: editing, compiling, results that grow, archives unpacked and removed

    USERS = 8

    def begin_users(self):
        for user in range(self.USERS):
            for name in ("src", "data", "mail"):
                os.makedirs(f"{self.root}/u{user}/{name}", exist_ok=True)

    def hour_users(self, hour, busy):
        def work(user, rng):
            for _ in range(busy if rng.random() < 0.8 else 0):
                self.user_act(f"{self.root}/u{user}", rng)

        self.together(work, range(self.USERS))

    def user_act(self, home, rng):
        if self.over():
            self.user_removes(home, rng)
        projects = sorted(os.listdir(f"{home}/src"))
        what = rng.choices(("unpack", "edit", "build", "results", "fetch", "clean", "core"),
                           (2 if len(projects) < 6 else 0.7, 8, 4, 6, 1.5, 0.5, 0.3))[0]
        project = f"{home}/src/{rng.choice(projects)}" if projects else None
        if what == "unpack" or project is None:
            at = f"{home}/src/p{self.unique()}"
            os.mkdir(at)
            for n in range(rng.randrange(10, 50)):
                write(f"{at}/f{n}.c", size(rng, 9000, 1.3, 400_000))
        elif what == "edit":
            for _ in range(rng.randrange(1, 4)):
                names = [n for n in os.listdir(project) if n.endswith(".c")]
                if names:
                    edit(f"{project}/{rng.choice(sorted(names))}", rng)
        elif what == "build":
            names = sorted(n for n in os.listdir(project) if n.endswith(".c"))
            for name in rng.sample(names, min(len(names), rng.randrange(2, 12))):
                compiled(f"{project}/{name[:-2]}", rng)
            objects = [n for n in os.listdir(project) if n.endswith(".o")]
            total = sum(length(f"{project}/{n}") for n in objects)
            write(f"{project}/a.out", int(total * 0.8) + 8000, 65536)
        elif what == "results":
            there = sorted(os.listdir(f"{home}/data"))
            name = rng.choice(there) if there and rng.random() < 0.75 else f"r{self.unique()}.dat"
            for _ in range(rng.randrange(1, 12)):
                append(f"{home}/data/{name}", size(rng, 16000, 1.0, 200_000))
        elif what == "fetch":
            write(f"{home}/data/d{self.unique()}.tar", size(rng, 900_000, 1.0, 6_000_000), 16384)
        elif what == "clean":
            for name in os.listdir(project):
                if name.endswith(".o") or name == "a.out":
                    os.unlink(f"{project}/{name}")
        else:
            write(f"{project}/core", size(rng, 3_000_000, 0.6, 8_000_000), 1 << 20)
            if rng.random() < 0.8:
                os.unlink(f"{project}/core")

    def user_removes(self, home, rng):
        data, projects = sorted(os.listdir(f"{home}/data")), sorted(os.listdir(f"{home}/src"))
        if data and (rng.random() < 0.7 or len(projects) < 3):
            for name in rng.sample(data, min(len(data), rng.randrange(1, 4))):
                os.unlink(f"{home}/data/{name}")
        elif projects:
            shutil.rmtree(f"{home}/src/{rng.choice(projects)}")

    # ---- mail: bursts of deliveries to mailboxes and directories, a queue, expunging

    BOXES, DIRS = 48, 16

    def begin_mail(self):
        for name in ("queue", "spool"):
            os.makedirs(f"{self.root}/{name}", exist_ok=True)
        for box in range(self.DIRS):
            for name in ("tmp", "new", "cur"):
                os.makedirs(f"{self.root}/home/m{box:02}/{name}", exist_ok=True)

    def hour_mail(self, hour, busy):
        burst = self.random.choice((1, 1, 2, 6))
        count = busy * burst * 10

        def work(worker, rng):
            if worker == 4:
                for _ in range(busy * (4 if self.over() else 2)):
                    self.read_mail(rng)
                return
            for _ in range(count // 4):
                self.deliver(rng)

        self.together(work, range(5))

    def deliver(self, rng):
        amount, name = size(rng, 6000, 1.5, 1_500_000), self.unique()
        queue = f"{self.root}/queue/{name}-{rng.randrange(1 << 30):x}"
        write(queue, amount, sync=True)
        # Some get far more than others.
        box = int((self.BOXES + self.DIRS) * rng.random() ** 2)
        if box % 4:
            append(f"{self.root}/spool/b{box:02}", amount, sync=True)
        else:
            at = f"{self.root}/home/m{box // 4:02}"
            name = f"{name}.{rng.randrange(1 << 30):x}"
            write(f"{at}/tmp/{name}", amount, sync=True)
            os.rename(f"{at}/tmp/{name}", f"{at}/new/{name}")
        os.unlink(queue)

    def read_mail(self, rng):
        keep = 0.35 if self.over() else 0.85
        box = rng.randrange(self.BOXES + self.DIRS)
        if box % 4:
            path = f"{self.root}/spool/b{box:02}"
            there = length(path)
            if there > 100_000 and rng.random() > keep:
                # Beside and over, as most programs do; some write in place.
                if box % 5:
                    write(f"{path}.tmp", int(there * keep), sync=True)
                    os.rename(f"{path}.tmp", path)
                else:
                    write(path, int(there * keep), sync=True)
            return
        at = f"{self.root}/home/m{box // 4:02}"
        for name in sorted(os.listdir(f"{at}/new")):
            os.rename(f"{at}/new/{name}", f"{at}/cur/{name}:2,S")
        read = sorted(os.listdir(f"{at}/cur"))
        for name in read:
            if rng.random() > keep:
                os.unlink(f"{at}/cur/{name}")

    # ---- git: a work tree that follows a history, its builds, their cache and what they release

    def begin_git(self):
        if not os.path.exists(f"{self.aux}/repo"):
            make_repository(f"{self.aux}/repo", self.days)
        self.tree = f"{self.root}/tree"
        if not os.path.exists(self.tree):
            git(self.root, "clone", "-q", "--no-checkout", "--no-tags", "-b", "start", f"file://{self.aux}/repo", "tree")
            git(self.tree, "checkout", "-q", "start")
        for name in ("cache", "release", "logs"):
            os.makedirs(f"{self.root}/{name}", exist_ok=True)

    def hour_git(self, hour, busy):
        if hour in (8, 11, 14, 17):
            tag = f"d{self.day}-{(8, 11, 14, 17).index(hour)}"
            git(self.tree, "fetch", "-q", "--no-tags", "origin", f"refs/tags/{tag}:refs/tags/{tag}")
            git(self.tree, "checkout", "-q", tag)
            self.build()
        elif busy >= 5:
            names = self.sources()
            for name in self.random.sample(names, min(8, len(names))):
                edit(name, self.random)
            self.build()
            git(self.tree, "checkout", "-q", ".")
        if hour == 20:
            if self.day % 7 == 6:
                git(self.tree, "gc", "-q")
            if self.day % 5 == 4:
                shutil.rmtree(f"{self.tree}/out", ignore_errors=True)
                self.build()
            write(f"{self.root}/release/{self.day:03}.tar", 4_000_000 + self.random.randrange(2_000_000), 10240)
        self.evict()

    def sources(self):
        found = []
        for at, dirs, names in os.walk(self.tree):
            dirs[:] = sorted(d for d in dirs if d not in (".git", "out"))
            found += [f"{at}/{n}" for n in sorted(names) if n.endswith(".c")]
        return found

    def build(self):
        stale = []
        for source in self.sources():
            target = f"{self.tree}/out/{os.path.relpath(source, self.tree)[:-2]}"
            if not os.path.exists(target + ".o") or os.stat(target + ".o").st_mtime_ns < os.stat(source).st_mtime_ns:
                stale.append((source, target))
        piles = [stale[n::4] for n in range(4)]

        def work(pile, rng):
            for source, target in pile:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                amount = compiled(target, rng, length(source))
                key = f"{rng.randrange(1 << 32):08x}"
                os.makedirs(f"{self.root}/cache/{key[0]}", exist_ok=True)
                write(f"{self.root}/cache/{key[0]}/{key}.tmp", amount, 65536)
                os.rename(f"{self.root}/cache/{key[0]}/{key}.tmp", f"{self.root}/cache/{key[0]}/{key}")
                append(f"{self.root}/logs/build-{self.day % 10}", rng.randrange(200, 3000))

        self.together(work, piles)
        for module in sorted({os.path.dirname(target) for _, target in stale}):
            total = sum(length(f"{module}/{n}") for n in os.listdir(module) if n.endswith(".o"))
            replaced(f"{module}/lib.a", total, 32768)
        if stale:
            replaced(f"{self.tree}/out/program", 3_000_000, 65536)

    def evict(self):
        every = [f"{at}/{n}" for at, _, names in os.walk(f"{self.root}/cache") for n in names]
        every.sort(key=lambda path: os.stat(path).st_mtime_ns)
        releases = sorted(os.listdir(f"{self.root}/release"))
        while self.over() and (every or releases):
            if releases and self.random.random() < 0.02:
                os.unlink(f"{self.root}/release/{releases.pop(0)}")
            elif every:
                # Mostly the oldest, as caches do.
                at = int(len(every) * self.random.random() ** 3)
                os.unlink(every.pop(at))


def size(rng, median, spread, most):
    return min(int(rng.lognormvariate(0, spread) * median) + 1, most)


def length(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def put(path, flags, amount, piece, sync):
    fd = os.open(path, flags, 0o644)
    try:
        done = 0
        while done < amount:
            count = min(piece, amount - done)
            at = (done * 7919) % (len(DATA) - count)
            done += os.write(fd, memoryview(DATA)[at:at + count])
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def write(path, amount, piece=8192, sync=False):
    put(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, amount, piece, sync)


def append(path, amount, piece=8192, sync=False):
    put(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, amount, piece, sync)


def replaced(path, amount, piece):
    write(path + ".new", amount, piece)
    os.rename(path + ".new", path)


def edit(path, rng):
    """Half of the editors write beside and rename, half in place with a copy that goes."""
    amount = max(int(length(path) * rng.uniform(0.9, 1.15)), 100)
    if rng.random() < 0.5:
        replaced(path, amount, 8192)
    else:
        write(path + "~", length(path))
        write(path, amount)
        os.unlink(path + "~")


def compiled(stem, rng, source=None):
    """An object file, with the assembler's text beside it as long as it takes."""
    amount = int((source or length(stem + ".c")) * rng.uniform(1.0, 2.2)) + 1000
    write(stem + ".s", amount * 2, 4096)
    write(stem + ".o", amount, 4096)
    os.unlink(stem + ".s")
    return amount


def git(at, *arguments, data=None):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", at, "-c", "advice.detachedHead=false", "-c", "gc.auto=0", *arguments]
    subprocess.run(command, check=True, input=data, env=env)


def make_repository(path, days):
    """A history of 4 tagged states a day, in 24 modules that grow."""
    rng = random.Random(7)
    os.makedirs(path)
    git(path, "init", "-q", "--bare", ".")
    files, stream, tags = {}, [], []

    def text():
        # Compresses about threefold, as programs do.
        words = size(rng, 1500, 0.9, 20_000)
        return " ".join(f"{rng.randrange(1 << 16):x}" if rng.random() < 0.5 else "return" for _ in range(words)).encode()

    def commit(tag, at, changed, gone):
        mark = len(tags) + 1
        stream.append(f"commit refs/heads/all\nmark :{mark}\ncommitter a <a@b> {at} +0000\ndata 1\nx\n".encode())
        if tags:
            stream.append(f"from :{mark - 1}\n".encode())
        tags.append(tag)
        for name in gone:
            stream.append(f"D {name}\n".encode())
        for name in changed:
            body = text()
            stream.append(f"M 644 inline {name}\ndata {len(body)}\n".encode() + body + b"\n")

    for n in range(500):
        files[f"m{n % 24}/f{n}.c"] = True
    commit("start", 1_000_000_000, sorted(files), [])
    number = 500
    for day in range(days):
        for part in range(4):
            gone = rng.sample(sorted(files), rng.randrange(4))
            for name in gone:
                del files[name]
            changed = rng.sample(sorted(files), rng.randrange(10, 40))
            for _ in range(rng.randrange(6)):
                changed.append(f"m{rng.randrange(24)}/f{number}.c")
                files[changed[-1]] = True
                number += 1
            commit(f"d{day}-{part}", 1_000_000_000 + day * 86400 + part * 3600, changed, gone)
    stream += [f"reset refs/tags/{tag}\nfrom :{n + 1}\n\n".encode() for n, tag in enumerate(tags)]
    stream.append(b"reset refs/heads/start\nfrom :1\n\n")
    git(path, "fast-import", "--quiet", data=b"".join(stream))


if __name__ == "__main__":
    kind, root, day, days, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    Activity(kind, root, day, days, seed, sys.argv[6] if len(sys.argv) > 6 else None).run()
