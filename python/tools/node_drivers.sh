#!/bin/sh
# Fetch the PostgreSQL drivers of Node.js that tests/drivers uses into .cache/node.
set -eu
cd "$(dirname "$0")/../.."

folder=.cache/node

[ -d "$folder/node_modules/pg" ] && [ -d "$folder/node_modules/postgres" ] && exit 0
command -v npm >/dev/null || {
    echo "fetching the drivers of Node.js needs npm" >&2
    exit 1
}
mkdir -p "$folder"
npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$folder" \
    pg@8 postgres@3 >/dev/null
