#!/bin/sh
# Builds the MinIO server that tests, demo and benchmarks use, once, into .cache/bin/minio.
#
# The version is pinned to a commit: MinIO publishes source alone, and a commit after its
# last release repairs conditional writes. Without a Go that can build it nothing is built and
# that is said; lakehouse.testing then takes Docker or moto, and says so too.
set -eu

version=v0.0.0-20260212201848-7aac2a2c5b7c
oldest_go=21 # Go 1.21 is the first to fetch the toolchain that a module asks for

cd "$(dirname "$0")/.."
bin=.cache/bin

if ! command -v go >/dev/null; then
    if [ -x "$bin/minio" ]; then
        echo "MinIO is there: $bin/minio (version not checked: Go is not installed)"
    else
        echo "MinIO is not built: Go is not installed (https://go.dev/dl). Tests and demo use Docker or moto." >&2
    fi
    exit 0
fi

if go version -m "$bin/minio" 2>/dev/null | grep -qF "$version"; then
    echo "MinIO is there: $bin/minio"
    exit 0
fi

minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
if [ "${minor:-$oldest_go}" -lt "$oldest_go" ]; then
    echo "MinIO is not built: Go 1.$minor is too old, 1.$oldest_go is needed. Tests and demo use Docker or moto." >&2
    exit 0
fi

echo "Building MinIO $version into $bin; on two cores this takes 4 to 10 minutes."
mkdir -p "$bin"
building=$(mktemp -d "$PWD/$bin/building.XXXXXX")
trap 'rm -rf "$building"' EXIT
trap 'exit 1' HUP INT TERM
GOBIN="$building" go install "github.com/minio/minio@$version"
# A rename, so that a build cut short never leaves half a binary behind.
mv "$building/minio" "$bin/minio"
echo "MinIO is built: $bin/minio"
