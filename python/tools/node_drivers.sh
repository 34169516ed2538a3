#!/bin/sh
# Fetch what tests/drivers uses of Node.js into .cache/node, in the versions of its lock file: the
# drivers of PostgreSQL, PGlite and TypeScript.
set -eu
cd "$(dirname "$0")/../.."

source=tests/drivers/node
folder=.cache/node
installed=$folder/node_modules/.installed-lock.json

cmp -s "$source/package-lock.json" "$installed" && exit 0
command -v npm >/dev/null || {
    echo "fetching the drivers of Node.js needs npm" >&2
    exit 1
}
mkdir -p "$folder"
cp "$source/package.json" "$source/package-lock.json" "$folder"
(cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
# where this file is, all is there
cp "$source/package-lock.json" "$installed"
