#!/usr/bin/env bash
# Makes the image without a registry, with the Dockerfile of this repository: its base and build images are made of this
# machine's own files, and the program is one that was built outside.
#
#   scripts/image.sh [PROGRAM [IMAGE]]      by default target/release/palisade, palisade
#
# Leaves the image, and what BuildKit caches where that is the builder. Needs: docker, strip, ldd.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=${1:-target/release/palisade}
image=${2:-palisade}
if [[ ! -x $program ]]; then
    echo "no program at $program: cargo build --release" >&2
    exit 2
fi
# The client takes a builder for granted that it may not have.
docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0

work=$(mktemp -d)
base=palisade-base:$$
build=palisade-build:$$
stage=palisade-stage:$$
tidy() {
    local status=$?
    rm -rf "$work"
    docker rmi "$stage" "$base" "$build" >/dev/null 2>&1 || true
    exit $status
}
trap tidy EXIT

# copy ROOT FILE...: files, below a root, at the paths where they are here.
copy() {
    local root=$1
    shift
    cp -L --parents "$@" "$root"
}

# linked PROGRAM: the libraries that it links, and the loader.
linked() {
    ldd "$1" | grep -o '/[^ ]*'
}

# import ROOT NAME: an image of the files below a root.
import() {
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --directory "$1" . |
        docker import --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' - "$2" >/dev/null
}

mkdir -p "$work"/{base/etc,base/tmp,build,context/prebuilt}
cp -L "$program" "$work/context/prebuilt/palisade"
strip "$work/context/prebuilt/palisade"
cp Dockerfile "$work/context"

# The base: the libraries, who 65532 is, and how names are resolved. Before 2.34, libc loads the modules for that when it
# needs them, and no program links them; since then it has them built in.
mapfile -t libraries < <(linked "$program")
copy "$work/base" "${libraries[@]}"
for library in "${libraries[@]}"; do
    [[ $library == */libc.so.6 ]] || continue
    for module in libnss_files.so.2 libnss_dns.so.2 libresolv.so.2; do
        if [[ -e ${library%/*}/$module ]]; then copy "$work/base" "${library%/*}/$module"; fi
    done
done
chmod 1777 "$work/base/tmp"
echo 'nonroot:x:65532:65532::/tmp:/sbin/nologin' >"$work/base/etc/passwd"
echo 'nonroot:x:65532:' >"$work/base/etc/group"
echo 'hosts: files dns' >"$work/base/etc/nsswitch.conf"
import "$work/base" "$base"

# The build image: what the Dockerfile's RUN needs where nothing is to be compiled.
for command in /bin/sh /bin/mkdir /bin/cp; do
    mapfile -t libraries < <(linked "$command")
    copy "$work/build" "$command" "${libraries[@]}"
done
import "$work/build" "$build"

arguments=(--quiet --network none --build-arg "BASE_IMAGE=$base" --build-arg "BUILD_IMAGE=$build")
# The first stage gets a name, so that it can be removed; the second build takes it from the cache.
docker build "${arguments[@]}" --target build --tag "$stage" "$work/context" >/dev/null
docker build "${arguments[@]}" --tag "$image" "$work/context" >/dev/null
docker image inspect --format "$image: {{.Size}} bytes" "$image"
