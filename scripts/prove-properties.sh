#!/usr/bin/env bash
# Proves that the property test of the lock table can fail: breaks a copy of the table in each of the ways that
# tests/mutants/ lists, one at a time, and requires that the test notices. The unbroken copy must pass.
#
#   scripts/prove-properties.sh [CASES]
#
# CARGO_TARGET_DIR may name a folder to build in; without it, target/mutants is used. Only the table, its codec and
# the test are built, not the whole workspace. Exits with 1 if a broken table goes unnoticed.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
cases=${1:-20000}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/mutants}

copy=$(mktemp -d)
trap 'git worktree remove --force "$copy/palisade" >/dev/null 2>&1 || true; rm -rf "$copy"' EXIT
git worktree add --quiet --detach "$copy/palisade" HEAD
cd "$copy/palisade"

# A package with nothing but the test, so that a change of the table rebuilds little.
mkdir proof
cat > proof/Cargo.toml <<'TOML'
[package]
name = "proof"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
path = "../tests/model/mod.rs"

[dev-dependencies]
palisade-core.workspace = true
palisade-raft.workspace = true
proptest.workspace = true
TOML
sed -i 's|^members = \[|members = ["proof", |' Cargo.toml
log=$copy/log
noticed='(the reply to|what|how|two replicas answered|the token of|who (holds|waits for)|the copy that|.* of Presented|after) .{0,60}'

check() {
    PALISADE_PROPERTY_CASES=$cases RUST_BACKTRACE=0 cargo test --quiet --package proof --lib > "$log" 2>&1
}

printf '%-32s %s\n' TABLE VERDICT
if ! check; then
    cat "$log"
    printf '%-32s %s\n' 'as it is' 'FAILS, so nothing can be proved'
    exit 1
fi
printf '%-32s %s\n' 'as it is' 'passes'

survivors=0
for patch in "$root"/tests/mutants/*.patch; do
    name=$(basename "$patch" .patch)
    if ! git apply "$patch"; then
        verdict='DOES NOT APPLY'
        survivors=$((survivors + 1))
    elif check; then
        verdict='SURVIVES'
        survivors=$((survivors + 1))
    elif grep -q "the_table_does_what_the_reference_does' .*panicked" "$log"; then
        verdict="noticed: $(grep -m1 -oE "$noticed" "$log" || echo otherwise)"
    else
        cat "$log"
        verdict='DOES NOT BUILD'
        survivors=$((survivors + 1))
    fi
    printf '%-32s %s\n' "$name" "$verdict"
    git checkout --quiet -- crates
done
exit $((survivors > 0))
