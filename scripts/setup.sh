#!/usr/bin/env bash
# Installs what the tests and benchmarks call, where it is missing: Debian's packages (as root), cargo's tools and a Python
# environment (as anyone).
#   scripts/setup.sh         everything
#   scripts/setup.sh debian  only the packages
set -euo pipefail

export PATH="$PATH:/usr/sbin:/sbin:${CARGO_HOME:-$HOME/.cargo}/bin"

# command or file that proves it → package
needed='
cc              build-essential
curl            curl
qemu-img        qemu-utils
qemu-io         qemu-utils
qemu-nbd        qemu-utils
nbdcopy         libnbd-bin
nginx           nginx-light
squid           squid-openssl
chromium        chromium
chromedriver    chromium-driver
openssl         openssl
mkfs.ext4       e2fsprogs
debugfs         e2fsprogs
gzip            gzip
pigz            pigz
bgzip           tabix
xz              xz-utils
zstd            zstd
aria2c          aria2
lz4             lz4
bzip2           bzip2
zip             zip
tar             tar
genisoimage     genisoimage
xorriso         xorriso
losetup         util-linux
perl            perl-base
docker-registry docker-registry
skopeo          skopeo
umoci           umoci
git             git
python3         python3
node            nodejs
npm             npm
'

missing=()
while read -r command package; do
    [ -n "$command" ] || continue
    command -v "$command" >/dev/null || missing+=("$package")
done <<<"$needed"
# Debian has the parts of Python that make environments in a package without a command of its own.
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3-venv)
fi

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    if ! command -v apt-get >/dev/null; then
        echo "setup: this is no Debian; install by hand what gives these packages there: ${missing[*]}" >&2
        exit 1
    fi
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        sudo='sudo -n'
        if ! $sudo true 2>/dev/null; then
            echo "setup: not root; ask somebody who is for: apt-get install ${missing[*]}" >&2
            exit 1
        fi
    fi
    echo "setup: installing ${missing[*]}"
    install=($sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends)
    # The package lists of a fresh machine are absent or stale: then, and only then, they are fetched once.
    if ! "${install[@]}" "${missing[@]}" >/dev/null 2>&1; then
        $sudo apt-get update -q
        "${install[@]}" "${missing[@]}"
    fi
fi

[ "${1-}" = debian ] && exit 0

if ! command -v cargo >/dev/null; then
    echo "setup: cargo is missing; rustup.rs installs it, and rust-toolchain.toml chooses the version" >&2
    exit 1
fi
for tool in nextest deny fuzz; do
    if ! cargo "$tool" --version >/dev/null 2>&1; then
        echo "setup: building cargo-$tool (minutes, once)"
        # In its own target folder: its lockfile has nothing to do with ours.
        env -u CARGO_TARGET_DIR cargo install --locked "cargo-$tool"
    fi
done

# The program of fixtures/src/peers that is linked to what deny.toml bans from everything of ours. Does nothing when it is
# as new as its source.
CARGO_TARGET_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/millrace/peer" \
    cargo build -q --locked --manifest-path "$(dirname "$0")/../fixtures/peer/Cargo.toml"

# A Python environment with what a list names, made anew when the list has changed.
environment() { # folder, list
    cmp -s "$2" "$1/made-of.txt" && return
    rm -rf "$1"
    python3 -m venv "$1"
    "$1/bin/pip" install -q --disable-pip-version-check --no-deps -r "$2"
    cp "$2" "$1/made-of.txt"
}

here="$(cd "$(dirname "$0")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/millrace"
# A server of S3, for fixtures/src/store.
environment "$cache/stores" "$here/stores.txt"
# Clients of tus, for fixtures/src/tus: tuspy, and tus-js-client.
environment "$cache/tus" "$here/tus/requirements.txt"
if ! cmp -s "$here/tus/package-lock.json" "$cache/tus/package-lock.json"; then
    cp "$here/tus/package.json" "$here/tus/package-lock.json" "$cache/tus"
    (cd "$cache/tus" && npm ci --silent --ignore-scripts --no-audit --no-fund) || {
        rm -f "$cache/tus/package-lock.json"
        exit 1
    }
fi
