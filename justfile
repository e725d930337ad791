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

# The long runs: all that verify does, and cargo-deny must be there.
nightly: ci
    command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
    cargo deny check licenses bans sources
    cargo build --release --locked
