# The recipes of the house. `just` lists them.

[private]
default:
    @just --list --unsorted

# Everything that a change must pass; changes no file.
verify: ci deny

# What the build server runs.
ci:
    .ci/run

# Formats, and applies what clippy can apply by itself.
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# Licences, banned crates and sources; skipped with a word where cargo-deny is not installed.
deny:
    @if command -v cargo-deny >/dev/null; then cargo deny check licenses bans sources; else echo "cargo-deny is not installed: not checked"; fi

# One seed of the simulation, with its story.
seed SEED:
    PALISADE_SIM_SEED={{SEED}} cargo test --locked --test simulation -- --nocapture

# The long runs: more seeds and cases, every checker proved on a program that is broken on purpose, and cargo-deny must be
# there. Hours on two cores.
nightly:
    PALISADE_SIM_SEEDS=200 PALISADE_PROPERTY_CASES=200000 PALISADE_FENCE_RUNS=10000 PALISADE_STORE_RUNS=500 .ci/run
    for prove in scripts/prove-*.sh; do "$prove" || exit 1; done
    command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
    cargo deny check licenses bans sources
    just peers
    cargo run --release --locked -- demo
    cargo run --release --locked -- bench soak --minutes 10

# The load generator beside other services: a workspace of its own, which needs protoc.
peers:
    cargo fmt --check --manifest-path benches/peers/Cargo.toml
    cargo clippy --all-targets --locked --manifest-path benches/peers/Cargo.toml -- -D warnings
    cargo test --release --locked --manifest-path benches/peers/Cargo.toml
