#!/bin/sh
# Fetch the PostgreSQL drivers of Node.js, and PGlite, that tests/drivers uses into .cache/node.
set -eu
cd "$(dirname "$0")/../.."

folder=.cache/node

modules=$folder/node_modules
[ -d "$modules/pg" ] && [ -d "$modules/postgres" ] && [ -d "$modules/@electric-sql/pglite" ] && exit 0
command -v npm >/dev/null || {
    echo "fetching the drivers of Node.js needs npm" >&2
    exit 1
}
mkdir -p "$folder"
npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$folder" \
    pg@8 postgres@3 @electric-sql/pglite@0.5.17 >/dev/null
