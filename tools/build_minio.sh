#!/bin/sh
# Builds the MinIO server that tests, demo and benchmarks use, once, into .cache/bin/minio.
#
# The version is pinned to a commit: MinIO publishes source alone, and a commit after its
# last release repairs conditional writes. Without a Go that can build it nothing is built and
# that is said; lakehouse.testing then takes Docker or moto, and says so too.
exec "$(dirname "$0")/build_go_server.sh" minio github.com/minio/minio \
    v0.0.0-20260212201848-7aac2a2c5b7c "4 to 10" "Tests and demo use Docker or moto."
