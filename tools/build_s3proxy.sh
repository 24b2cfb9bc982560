#!/bin/sh
# Fetches S3Proxy, whose If-Match does not hold between writers that meet, once, from Maven's repository
# into .cache/bin/s3proxy-VERSION (57 MB of jars). `make interop` sees that check-store refuses it.
set -eu

version=4.1.0
annotations=2.21 # jackson-annotations, which its own list of dependencies leaves out

cd "$(dirname "$0")/.."
bin=.cache/bin
jars=$bin/s3proxy-$version

if [ -d "$jars" ]; then
    echo "S3Proxy is there: $jars"
    exit 0
fi
for program in java mvn; do
    if ! command -v "$program" >/dev/null; then
        echo "S3Proxy is not fetched: $program is not installed. make interop skips what needs it." >&2
        exit 0
    fi
done

echo "Fetching S3Proxy $version into $jars; this takes 1 to 3 minutes."
mkdir -p "$bin"
fetching=$(mktemp -d "$PWD/$bin/fetching.XXXXXX")
trap 'rm -rf "$fetching"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$fetching/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lakehouse</groupId>
  <artifactId>s3proxy-of-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.gaul</groupId>
      <artifactId>s3proxy</artifactId>
      <version>$version</version>
    </dependency>
    <dependency>
      <groupId>com.fasterxml.jackson.core</groupId>
      <artifactId>jackson-annotations</artifactId>
      <version>$annotations</version>
    </dependency>
  </dependencies>
</project>
POM
mvn --quiet --batch-mode --file "$fetching/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$fetching/jars"
# A rename, so that a download cut short never leaves half of the jars behind.
mv "$fetching/jars" "$jars"
echo "S3Proxy is there: $jars"
