#!/usr/bin/env bash
# Proves that the durability suite can fail: breaks a copy of the program in each of the ways that
# tests/mutants/durability/ lists, one at a time, and requires that the suite notices. The unbroken copy must pass.
#
#   scripts/prove-durability.sh
#
# Needs strace. CARGO_TARGET_DIR may name a folder to build in; without it, target/mutants is used. Exits with 1 if a
# broken program goes unnoticed.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/mutants}

copy=$(mktemp -d)
trap 'git worktree remove --force "$copy/palisade" >/dev/null 2>&1 || true; rm -rf "$copy"' EXIT
git worktree add --quiet --detach "$copy/palisade" HEAD
cd "$copy/palisade"
log=$copy/log

built() {
    cargo test --quiet --locked --package palisade --test durability --no-run > "$log" 2>&1
}

check() {
    RUST_BACKTRACE=0 cargo test --quiet --locked --package palisade --test durability > "$log" 2>&1
}

printf '%-32s %s\n' PROGRAM VERDICT
if ! check; then
    cat "$log"
    printf '%-32s %s\n' 'as it is' 'FAILS, so nothing can be proved'
    exit 1
fi
printf '%-32s %s\n' 'as it is' 'passes'

survivors=0
for patch in "$root"/tests/mutants/durability/*.patch; do
    name=$(basename "$patch" .patch)
    # The first line of a patch names the tests that must notice it.
    expected=$(sed -n '1s/^Noticed by: //p' "$patch")
    if ! git apply "$patch"; then
        verdict='DOES NOT APPLY'
        survivors=$((survivors + 1))
    elif ! built; then
        cat "$log"
        verdict='DOES NOT BUILD'
        survivors=$((survivors + 1))
    elif check; then
        verdict='SURVIVES'
        survivors=$((survivors + 1))
    else
        verdict=noticed
        for test in $expected; do
            if grep -qE "^    ($test)\$" "$log"; then
                verdict="$verdict by $test"
            else
                verdict="$verdict, but NOT by $test"
                survivors=$((survivors + 1))
            fi
        done
    fi
    printf '%-32s %s\n' "$name" "$verdict"
    git checkout --quiet -- crates
done
exit $((survivors > 0))
