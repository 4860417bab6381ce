#!/usr/bin/python3
"""Makes what the workloads read: inputs.py DIRECTORY.

Every byte follows from the seed below and from nothing of this machine but the versions of autoconf, automake, git,
dpkg and rpm. Nothing is made again where the directory holds what this version of the script makes.
"""

import gzip
import hashlib
import io
import keyword
import os
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile

SEED = 20261123
EPOCH = 1700000000


def words(rng):
    letters = "etaoinshrdlucmfwypvbgk"
    made = ("".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(4000))
    return [word for word in made if not keyword.iskeyword(word)]


def size(rng, median, most):
    return int(min(most, rng.lognormvariate(0, 1.1) * median)) + 1


def text(rng, vocabulary, length):
    lines, have = [], 0
    while have < length:
        line = " ".join(rng.choices(vocabulary, k=rng.randint(4, 12))) + "\n"
        lines.append(line)
        have += len(line)
    return "".join(lines)[:length]


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())
    os.utime(path, (EPOCH, EPOCH))


def run(*argv, cwd=None, env=None, stdin=None):
    """Runs a tool; what it says is shown only where it fails."""
    done = subprocess.run(argv, cwd=cwd, env=env, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"failed to run {' '.join(argv)}: {done.stdout.decode(errors='replace')[-2000:]}")


def tree(rng, vocabulary, root):
    """2,400 text files of 20 MB in 150 directories, three deep."""
    for number in range(2400):
        top, mid, low = number % 6, number // 6 % 5, number // 30 % 5
        kind = ("c", "h", "txt", "md")[number % 4]
        data = text(rng, vocabulary, size(rng, 4500, 200_000))
        put(f"{root}/d{top}/e{mid}/f{low}/{rng.choice(vocabulary)}{number}.{kind}", data)
    # As a tree grows: neither in the order of its names nor of its directories.
    grown = sorted(os.path.relpath(f"{at}/{name}", root) for at, _, names in os.walk(root) for name in names)
    rng.shuffle(grown)
    put(f"{root}.order", "".join(f"{path}\n" for path in grown))


def python_module(rng, vocabulary, functions):
    lines = ["import os", "import re", ""]
    for number in range(functions):
        name, word = rng.choice(vocabulary), rng.choice(vocabulary)
        lines += [
            f"class {name.title()}{number}:",
            f'    """{text(rng, vocabulary, 120).strip()}"""',
            "",
            f"    def {word}(self, left, right=None):",
            f"        table = {{key: len(key) for key in {rng.choices(vocabulary, k=8)!r}}}",
            "        for key, value in sorted(table.items()):",
            f"            if value > {rng.randint(2, 9)} and re.match(r'[a-z]+', key):",
            "                left += value * (right or 1)",
            "        return os.path.join(str(left), key)",
            "",
        ]
    return "\n".join(lines)


def python_tree(rng, vocabulary, root):
    """600 modules in 25 packages."""
    for number in range(600):
        put(f"{root}/p{number % 25}/m{number}.py", python_module(rng, vocabulary, rng.randint(2, 30)))
    for number in range(25):
        put(f"{root}/p{number}/__init__.py", "")


def wheels(rng, vocabulary, root):
    """Ten wheels of 24 to 60 modules each."""
    for number in range(10):
        name = f"matrix{number}"
        files = {f"{name}/__init__.py": ""}
        for module in range(rng.randint(24, 60)):
            files[f"{name}/s{module % 4}/m{module}.py"] = python_module(rng, vocabulary, rng.randint(2, 12))
        info = f"{name}-1.0.dist-info"
        needs = f"Requires-Dist: matrix{number - 1}\n" if number else ""
        files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
        files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: matrix\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files[f"{info}/RECORD"] = "".join(f"{f},,\n" for f in [*files, f"{info}/RECORD"])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
            for path, data in files.items():
                wheel.writestr(zipfile.ZipInfo(path, (2023, 11, 14, 22, 13, 20)), data, zipfile.ZIP_DEFLATED)
        put(f"{root}/{name}-1.0-py3-none-any.whl", packed.getvalue())


CONFIGURE = """AC_INIT([matrix],[1.0])
AC_CONFIG_SRCDIR([src/main.c])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AC_CONFIG_HEADERS([config.h])
AC_PROG_CC
AC_PROG_RANLIB
AC_CHECK_HEADERS([unistd.h fcntl.h sys/mman.h sys/stat.h poll.h pthread.h strings.h wchar.h no_such.h])
AC_TYPE_SIZE_T
AC_TYPE_OFF_T
AC_CHECK_SIZEOF([long])
AC_CHECK_FUNCS([mmap openat fdatasync splice strlcpy getline memmem no_such_call])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""


def c_project(rng, vocabulary, root):
    """50 sources, 120 headers in four directories; buildable by autotools, cmake, and without either."""
    for number in range(120):
        others = sorted({rng.randrange(number) for _ in range(rng.randint(0, 4))}) if number else []
        body = "".join(f'#include "h{o}.h"\n' for o in others)
        body += "".join(
            f"static inline int {rng.choice(vocabulary)}_{number}_{i}(int x) {{ return x * {i + 3} + {number}; }}\n"
            for i in range(rng.randint(5, 40))
        )
        put(f"{root}/include{number % 4}/h{number}.h", f"#ifndef H{number}\n#define H{number}\n{body}#endif\n")
    for number in range(50):
        uses = sorted(rng.sample(range(120), rng.randint(4, 14)))
        body = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        body += "".join(f'#include "h{h}.h"\n' for h in uses)
        for i in range(rng.randint(4, 16)):
            body += (
                f"int f{number}_{i}(int x) {{ char b[64]; int s = 0;"
                f' for (int j = 0; j < x; j++) {{ snprintf(b, sizeof b, "%d {rng.choice(vocabulary)}", j);'
                " s += (int)strlen(b) ^ j; } return s; }\n"
            )
        put(f"{root}/src/s{number}.c", body)
    calls = "".join(f"extern int f{n}_0(int);\n" for n in range(50))
    total = " + ".join(f"f{n}_0({n})" for n in range(50))
    put(f"{root}/src/main.c", f"{calls}int main(void) {{ return ({total}) == 42; }}\n")
    sources = " ".join(f"src/s{n}.c" for n in range(50))
    includes = " ".join(f"-I$(srcdir)/include{i}" for i in range(4))
    put(
        f"{root}/Makefile.am",
        f"bin_PROGRAMS = matrix\nmatrix_SOURCES = src/main.c\nmatrix_LDADD = libparts.a\n"
        f"noinst_LIBRARIES = libparts.a\nlibparts_a_SOURCES = {sources}\nAM_CPPFLAGS = {includes}\n",
    )
    put(f"{root}/configure.ac", CONFIGURE)
    dirs = " ".join(f"include{i}" for i in range(4))
    put(
        f"{root}/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.10)\nproject(matrix C)\n"
        f"include_directories({dirs})\nadd_library(parts STATIC {sources})\n"
        "add_executable(matrix src/main.c)\ntarget_link_libraries(matrix parts)\n",
    )
    run("autoreconf", "--install", cwd=root)
    shutil.rmtree(f"{root}/autom4te.cache", ignore_errors=True)
    # Were one of what autoreconf made older than what it is made from, make would make it again.
    for at, _, names in os.walk(root):
        for name in names:
            os.utime(f"{at}/{name}", (EPOCH, EPOCH))


def debs(rng, vocabulary, root):
    """Eight packages of 40 to 120 files."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    for number in range(8):
        made = f"{root}/build"
        for file in range(rng.randint(40, 120)):
            where = ("usr/bin", "usr/lib/m", "usr/share/doc/m", "usr/share/man/man1")[file % 4]
            put(f"{made}/{where}{number}/{rng.choice(vocabulary)}{file}", text(rng, vocabulary, size(rng, 3000, 90_000)))
        control = f"Package: matrix{number}\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: x\n"
        put(f"{made}/DEBIAN/control", control)
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", made, f"{root}/matrix{number}.deb", env=env)
        shutil.rmtree(made)


def rpms(rng, vocabulary, root):
    """Eight packages of 40 to 120 files, and three of them in a second version with a third of its files anew."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    settings = {
        "_topdir": f"{root}/work",
        "_rpmdir": root,
        "_rpmfilename": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
        "_buildhost": "example.org",
        "_binary_payload": "w1.gzdio",
        "__os_install_post": "%{nil}",
        "_build_id_links": "none",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
    }
    defined = [part for name, value in settings.items() for part in ("--define", f"{name} {value}")]
    for number in range(8):
        files = {}
        for file in range(rng.randint(40, 120)):
            where = ("bin/r", "lib/r", "share/doc/r", "share/man/man1")[file % 4]
            path = f"/usr/{where}{number}/{rng.choice(vocabulary)}{file}"
            files[path] = text(rng, vocabulary, size(rng, 3000, 90_000))
        for version in ("1.0", "2.0") if number % 3 == 1 else ("1.0",):
            for path in rng.sample(sorted(files), len(files) // 3) if version == "2.0" else []:
                files[path] = text(rng, vocabulary, size(rng, 3000, 90_000))
            made, spec = f"{root}/build", f"{root}/spec"
            for path, data in files.items():
                put(f"{made}{path}", data)
            put(
                spec,
                f"Name: matrix{number}\nVersion: {version}\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n"
                f"%description\nx\n%install\nmkdir -p %{{buildroot}}\ncp -a {made}/. %{{buildroot}}\n%files\n%defattr(-,root,root)\n"
                + "".join(f"{path}\n" for path in files),
            )
            run("rpmbuild", "--quiet", "-bb", "--nodeps", *defined, spec, env=env)
            shutil.rmtree(made)
    shutil.rmtree(f"{root}/work")
    os.remove(spec)


def manual(rng, vocabulary, root):
    """180 manual pages of 2 to 40 KB in eight directories, each with a table and what all of a directory include."""
    for section in range(8):
        put(f"{root}/s{section}/common.so", f".SH SEE ALSO\n{text(rng, vocabulary, 600)}")
    for number in range(180):
        name, at = f"{rng.choice(vocabulary)}{number}", f"s{rng.randrange(8)}"
        page = f'.TH {name.upper()} 1 "2023-11-14" "matrix 1.0"\n.SH NAME\n{name} \\- {text(rng, vocabulary, 40).strip()}\n'
        for _ in range(rng.randint(2, 9)):
            page += f".SH {rng.choice(vocabulary).upper()}\n{text(rng, vocabulary, size(rng, 1200, 6000)).strip()}\n"
            page += "".join(f".TP\n.B \\-\\-{rng.choice(vocabulary)}\n{text(rng, vocabulary, 150).strip()}\n" for _ in range(4))
        rows = "".join("\t".join(rng.choices(vocabulary, k=3)) + "\n" for _ in range(rng.randint(3, 12)))
        put(f"{root}/{at}/{name}.1", f"'\\\" t\n{page}.TS\nallbox;\nl l l.\n{rows}.TE\n.so {at}/common.so\n")


def layers(rng, vocabulary, root):
    """Twelve layers of an image: later ones replace, remove (.wh.NAME) and link what earlier ones brought."""
    have = []
    os.makedirs(root, exist_ok=True)
    for number in range(12):
        path = f"{root}/layer{number}.tar.gz"
        # By itself gzip's header would tell when it was made.
        with gzip.GzipFile(path, "wb", 1, mtime=EPOCH) as packed, tarfile.open(fileobj=packed, mode="w") as layer:

            def add(path, data=b"", link=None):
                entry = tarfile.TarInfo(path)
                entry.mtime, entry.mode = EPOCH, 0o644
                if link:
                    entry.type, entry.linkname = link
                else:
                    entry.size = len(data)
                layer.addfile(entry, io.BytesIO(data))

            for file in range(900 if number == 0 else 250):
                path = f"usr/{rng.choice(('lib', 'share', 'bin'))}/{rng.choice(vocabulary)}/{number}-{file}"
                add(path, text(rng, vocabulary, size(rng, 4000, 300_000)).encode())
                have.append(path)
            for path in rng.sample(have, 20) if number else []:
                where, name = os.path.split(path)
                add(f"{where}/.wh.{name}")
                have.remove(path)
            for path in rng.sample(have, 15):
                add(path, text(rng, vocabulary, 2000).encode())
                add(f"{path}.hard{number}", link=(tarfile.LNKTYPE, path))
                add(f"{path}.soft{number}", link=(tarfile.SYMTYPE, os.path.basename(path)))


def pictures(rng, root):
    """200 pictures of 20 to 300 KB in 12 directories, each a few colours that run into each other, with noise."""
    for number in range(200):
        wide, high = rng.randint(80, 320), rng.randint(80, 320)
        colours = [rng.randbytes(3) for _ in range(4)]
        noise = rng.randbytes(3 * wide)
        rows = []
        for row in range(high):
            left, right = colours[row * 2 // high], colours[2 + row * 2 // high]
            ramp = bytes((left[i % 3] * (3 * wide - i) + right[i % 3] * i) // (3 * wide) for i in range(3 * wide))
            rows.append(bytes((a + b % 8) % 256 for a, b in zip(ramp, noise)))
            noise = noise[7:] + noise[:7]
        put(f"{root}/p{rng.randrange(12)}/{number}.ppm", b"P6\n%d %d\n255\n" % (wide, high) + b"".join(rows))


def mail(rng, vocabulary, root):
    """240 messages, median 4 KB."""
    for number in range(240):
        head = f"From: {rng.choice(vocabulary)}@example.org\nTo: b@example.org\nMessage-ID: <{number}@example.org>\n"
        head += f"Date: Tue, 14 Nov 2023 22:{number // 60:02}:{number % 60:02} +0000\n"
        head += f"Subject: {' '.join(rng.choices(vocabulary, k=5))}\n\n"
        put(f"{root}/{number:03}", head + text(rng, vocabulary, size(rng, 4000, 60_000)))


def sql(rng, vocabulary, root):
    """A table of 20,000 rows, and transactions on it: 240 for a write-ahead log, 60 for a rollback journal."""
    rows = "".join(
        f"INSERT INTO t VALUES({n},{rng.randrange(5000)},'{text(rng, vocabulary, 180).strip()}');\n" for n in range(20_000)
    )
    table = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v TEXT);\nCREATE INDEX i ON t(k);\n"
    put(f"{root}/load.sql", f"PRAGMA synchronous=OFF;\nBEGIN;\n{table}{rows}COMMIT;\n")

    def transaction(number):
        changes = "".join(
            f"UPDATE t SET k=k+1, v='{rng.choice(vocabulary)}'||substr(v,1,150) WHERE id={rng.randrange(20_000)};\n"
            f"SELECT count(*),max(v) FROM t WHERE k={rng.randrange(5000)};\n"
            for _ in range(3)
        )
        new = f"INSERT INTO t VALUES({30_000 + number},{rng.randrange(5000)},'{text(rng, vocabulary, 180).strip()}');\n"
        gone = f"DELETE FROM t WHERE id={rng.randrange(20_000)};\n"
        return f"BEGIN IMMEDIATE;\n{changes}{new}{gone}COMMIT;\n"

    for name, mode, count in (("wal", "WAL", 240), ("rollback", "DELETE", 60)):
        made = "".join(transaction(n) for n in range(count))
        put(f"{root}/{name}.sql", f"PRAGMA journal_mode={mode};\nPRAGMA synchronous=FULL;\nPRAGMA cache_size=-2000;\n{made}")


def repository(rng, vocabulary, source, root):
    """A packed repository of 40 commits over the tree."""
    env = {**os.environ, "HOME": root, "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@example.org"}
    work = f"{root}/work"
    os.makedirs(work)
    git = lambda *argv: run("git", *argv, cwd=work, env=env)
    git("init", "-q", "-b", "main")
    git("config", "gc.auto", "0")
    for top in range(6):
        shutil.copytree(f"{source}/d{top}", f"{work}/d{top}")
    files = sorted(os.path.join(at, name) for at, _, names in os.walk(f"{work}/d0") for name in names)
    for commit in range(40):
        for path in rng.sample(files, 40) if commit else []:
            with open(path, "a") as out:
                out.write(text(rng, vocabulary, rng.randint(50, 2000)))
        env["GIT_AUTHOR_DATE"] = env["GIT_COMMITTER_DATE"] = f"{EPOCH + commit} +0000"
        git("add", "-A")
        git("commit", "-q", "-m", f"commit {commit}")
    git("-c", "pack.threads=1", "repack", "-q", "-a", "-d")
    run("git", "clone", "-q", "--bare", "--no-hardlinks", work, f"{root}/repo.git", env=env)
    shutil.rmtree(work)


def make(root):
    def rng(of):
        return random.Random(f"{SEED} {of}")

    vocabulary = words(rng("words"))
    tree(rng("tree"), vocabulary, f"{root}/tree")
    python_tree(rng("python"), vocabulary, f"{root}/python")
    wheels(rng("wheels"), vocabulary, f"{root}/wheels")
    c_project(rng("c"), vocabulary, f"{root}/c")
    debs(rng("debs"), vocabulary, f"{root}/debs")
    rpms(rng("rpms"), vocabulary, f"{root}/rpms")
    layers(rng("layers"), vocabulary, f"{root}/layers")
    pictures(rng("pictures"), f"{root}/pictures")
    manual(rng("manual"), vocabulary, f"{root}/manual")
    mail(rng("mail"), vocabulary, f"{root}/mail")
    sql(rng("sql"), vocabulary, f"{root}/sql")
    repository(rng("git"), vocabulary, f"{root}/tree", f"{root}/git")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = os.path.abspath(sys.argv[1])
    with open(__file__, "rb") as own:
        version = hashlib.sha256(own.read()).hexdigest()
    stamp = f"{root}/made-by"
    if os.path.exists(stamp):
        with open(stamp) as made:
            if made.read() == version:
                return
        shutil.rmtree(root)
    elif os.path.exists(root) and os.listdir(root):
        sys.exit(f"failed to use {root}: it holds something else, expected an empty directory or one that this script made")
    os.umask(0o022)
    make(root)
    put(stamp, version)


main()
