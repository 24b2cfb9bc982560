#!/bin/sh
# Builds one server of tests from its Go module, once, into .cache/bin; the scripts beside this one call it.
#
#   build_go_server.sh NAME PACKAGE VERSION MINUTES WITHOUT
#
# NAME is the binary, PACKAGE what `go install` takes, MINUTES how long that takes on two cores, and
# WITHOUT what becomes of those who need the server where it cannot be built: that is said, and no error.
set -eu

name=$1 package=$2 version=$3 minutes=$4 without=$5
oldest_go=21 # Go 1.21 is the first to fetch the toolchain that a module asks for

cd "$(dirname "$0")/.."
bin=.cache/bin

if ! command -v go >/dev/null; then
    if [ -x "$bin/$name" ]; then
        echo "$name is there: $bin/$name (version not checked: Go is not installed)"
    else
        echo "$name is not built: Go is not installed (https://go.dev/dl). $without" >&2
    fi
    exit 0
fi

# Only the line of the module itself: a dependency may have the same version.
if go version -m "$bin/$name" 2>/dev/null | grep '^[[:space:]]*mod[[:space:]]' | grep -qF "$version"; then
    echo "$name is there: $bin/$name"
    exit 0
fi

minor=$(go env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
if [ "${minor:-$oldest_go}" -lt "$oldest_go" ]; then
    echo "$name is not built: Go 1.$minor is too old, 1.$oldest_go is needed. $without" >&2
    exit 0
fi

echo "Building $name $version into $bin; on two cores this takes $minutes minutes."
mkdir -p "$bin"
building=$(mktemp -d "$PWD/$bin/building.XXXXXX")
trap 'rm -rf "$building"' EXIT
trap 'exit 1' HUP INT TERM
GOBIN="$building" go install "$package@$version"
# A rename, so that a build cut short never leaves half a binary behind.
mv "$building/$name" "$bin/$name"
echo "$name is built: $bin/$name"
