#!/usr/bin/env bash
# Proves that the simulation can fail: breaks a copy of the product in each of the ways that tests/mutants/simulation/
# lists, one at a time, and requires that some seed notices. The unbroken copy must pass.
#
#   scripts/prove-simulation.sh [SEEDS]
#
# CARGO_TARGET_DIR may name a folder to build in; without it, target/mutants is used. Exits with 1 if a broken copy goes
# unnoticed.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
seeds=${1:-20}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/mutants}

copy=$(mktemp -d)
trap 'git worktree remove --force "$copy/palisade" >/dev/null 2>&1 || true; rm -rf "$copy"' EXIT
git worktree add --quiet --detach "$copy/palisade" HEAD
cd "$copy/palisade"
log=$copy/log

check() {
    PALISADE_SIM_SEEDS=$seeds RUST_BACKTRACE=0 cargo test --quiet --test simulation -- --nocapture > "$log" 2>&1
}

printf '%-32s %s\n' PRODUCT VERDICT
if ! check; then
    cat "$log"
    printf '%-32s %s\n' 'as it is' 'FAILS, so nothing can be proved'
    exit 1
fi
printf '%-32s %s\n' 'as it is' "passes $seeds seeds"

survivors=0
for patch in "$root"/tests/mutants/simulation/*.patch; do
    name=$(basename "$patch" .patch)
    if ! git apply "$patch"; then
        verdict='DOES NOT APPLY'
        survivors=$((survivors + 1))
    elif check; then
        verdict='SURVIVES'
        survivors=$((survivors + 1))
    elif grep -q 'PALISADE_SIM_SEED=' "$log"; then
        verdict="noticed: $(grep -m1 -oE 'PALISADE_SIM_SEED=[0-9]+' "$log"): $(grep -A1 -m1 'violations: \[' "$log" | tail -n 1 | cut -c1-120)"
    else
        cat "$log"
        verdict='DOES NOT BUILD'
        survivors=$((survivors + 1))
    fi
    printf '%-32s %s\n' "$name" "$verdict"
    git checkout --quiet -- crates
done
exit $((survivors > 0))
