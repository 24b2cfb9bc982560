#!/bin/sh
# Builds versitygw, an S3 gateway to a directory, once, into .cache/bin/versitygw. It holds both
# conditions; `make interop` runs the conformance suite and tables on it.
exec "$(dirname "$0")/build_go_server.sh" versitygw github.com/versity/versitygw/cmd/versitygw \
    v1.8.0 "1 to 10" "make interop skips what needs it."
