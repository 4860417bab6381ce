"""mail.py maildir|mbox make|NUMBER|read: see the scripts of these names. Python's mailbox module flushes what it adds."""

import mailbox
import os
import sys
import time

kind, what = sys.argv[1:]
box = mailbox.Maildir("box") if kind == "maildir" else mailbox.mbox("box")
writers = 4 if kind == "maildir" else 2


def locked(change):
    """Another writer may hold the lock for a moment; who waits asks again."""
    while True:
        try:
            box.lock()
            break
        except mailbox.ExternalClashError:
            time.sleep(0.05)
    try:
        change()
        box.flush()
    finally:
        box.unlock()


def read(name):
    with open(f"mail/{name}", "rb") as file:
        return file.read()


names = sorted(os.listdir("mail"))
if what == "make":
    box.flush()
elif what == "read":
    for number, (key, message) in enumerate(sorted(box.items())):
        assert message["Subject"]
        if kind == "maildir":
            message.set_subdir("cur")
            message.add_flag("S")
            box[key] = message
            if number % 2:
                box.remove(key)
    if kind == "mbox":
        locked(lambda: [box.remove(key) for number, key in enumerate(list(box.keys())) if number % 3 == 0])
elif kind == "maildir":
    for name in names[int(what) :: writers]:
        box.add(read(name))
else:
    # Ten at a time, as a server delivers what has come in.
    own = names[int(what) :: writers]
    for at in range(0, len(own), 3):
        locked(lambda: [box.add(read(name)) for name in own[at : at + 3]])
