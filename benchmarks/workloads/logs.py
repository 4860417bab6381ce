"""logs.py EACH: a service whose log is flushed after each EACH lines; 0 for never. See the script `logs`."""

import logging
import logging.handlers
import os
import random
import sys

each = int(sys.argv[1])
rng = random.Random(each)


class Flushed(logging.handlers.RotatingFileHandler):
    seen = 0

    def emit(self, record):
        super().emit(record)
        self.seen += 1
        if each and self.seen % each == 0:
            os.fdatasync(self.stream.fileno())


log = logging.getLogger("service")
log.setLevel(logging.INFO)
handler = Flushed(f"service{each}.log", maxBytes=12_000, backupCount=6)
# Lines of the same length whatever the time.
handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
log.addHandler(handler)
for number in range(300):
    state = "slow" if rng.random() < 0.1 else "done"
    log.info("request %06d %s %s", number, state, "x" * rng.randint(40, 300))
