#!/bin/sh
# Fetch mermaid, which draws the diagrams of the site, into .cache/mermaid: one file of an npm package.
# The site brings it along, so that whoever reads it loads nothing from elsewhere.
set -eu
cd "$(dirname "$0")/../.."

version=11.17.2
folder=.cache/mermaid

[ -s "$folder/mermaid.min.js" ] && exit 0
command -v npm >/dev/null || {
    echo "fetching mermaid needs npm" >&2
    exit 1
}
rm -rf "$folder"
mkdir -p "$folder"
npm pack --silent --pack-destination "$folder" "mermaid@$version" >/dev/null
tar -xzf "$folder/mermaid-$version.tgz" -C "$folder" --strip-components=2 package/dist/mermaid.min.js
rm "$folder/mermaid-$version.tgz"
