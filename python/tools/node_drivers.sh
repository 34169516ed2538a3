#!/bin/sh
# Fetch what tests/drivers uses of Node.js into .cache/node, in the versions of its lock file: the
# drivers of PostgreSQL, PGlite and TypeScript.
set -eu
cd "$(dirname "$0")/../.."

source=tests/drivers/node
folder=.cache/node

[ -d "$folder/node_modules" ] &&
    cmp -s "$source/package-lock.json" "$folder/package-lock.json" && exit 0
command -v npm >/dev/null || {
    echo "fetching the drivers of Node.js needs npm" >&2
    exit 1
}
# the lock file comes last: where it is, all is there
mkdir -p "$folder/new"
cp "$source/package.json" "$source/package-lock.json" "$folder/new"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$folder/new" >/dev/null
rm -rf "$folder/node_modules" "$folder/package-lock.json"
mv "$folder/new/node_modules" "$folder"
mv "$folder/new/package.json" "$folder/new/package-lock.json" "$folder"
rmdir "$folder/new"
