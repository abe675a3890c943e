#!/usr/bin/env bash
# Runs every fuzz target, or those named, for SECONDS each.
#   scripts/fuzz.sh SECONDS [TARGET…]
# libFuzzer needs unstable flags of the compiler; RUSTC_BOOTSTRAP lets the pinned stable one take them.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: scripts/fuzz.sh SECONDS [TARGET…]}
shift
if [ ! -d fixtures/fuzz ]; then
    echo "fuzz: there is no fixtures/fuzz" >&2
    exit 0
fi
export RUSTC_BOOTSTRAP=1 PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo fuzz list --fuzz-dir fixtures/fuzz)
cargo fuzz build --fuzz-dir fixtures/fuzz

passed=0 failed=()
for target in "${targets[@]}"; do
    # What libFuzzer finds has a hash for its name and is ignored by git; seeds have names that say what they are.
    corpus=fixtures/fuzz/corpus/$target
    mkdir -p "$corpus"
    echo "fuzz: $target, $seconds s"
    if cargo fuzz run --fuzz-dir fixtures/fuzz "$target" "$corpus" -- \
        -max_total_time="$seconds" -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 -print_final_stats=0 -verbosity=0; then
        passed=$((passed + 1))
    else
        failed+=("$target")
    fi
done
echo "fuzz: $passed passed, ${#failed[@]} failed ${failed[*]-}"
[ ${#failed[@]} -eq 0 ]
