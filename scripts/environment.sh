# Makes the environment in .venv/. Sourced by ./run, ./test and ./bench/run, which set `root` to the checkout's directory.
#
# Nothing but Python with its venv module is needed. The packages are those of requirements.lock, checked against its
# hashes, from wherever pip is configured to look on this machine.
# shellcheck shell=bash

venv="$root/.venv"

fail() {
    printf 'bullpen: %s\n' "$*" >&2
    exit 1
}

progress() {
    printf 'bullpen: %s\n' "$*" >&2
}

# Returns at once when there is nothing to do. Otherwise one process works, and others that start meanwhile wait for it.
ensure_environment() {
    environment_is_ready && return
    [ -w "$root" ] || fail "cannot make the environment: $root is not writable"
    (
        if command -v flock >/dev/null 2>&1 && ! flock --nonblock 9; then
            progress "waiting for another process that is making the environment ..."
            flock 9
        fi
        environment_is_ready || build_environment
    ) 9<"$root/requirements.lock" || exit 1
}

environment_is_ready() {
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$(environment_stamp)" ]
}

# What an environment depends on: when any of it changes, it is brought up to date. The path is part of it because the
# scripts in .venv/bin name it: a checkout that was moved or copied needs a new environment.
environment_stamp() {
    printf '%s\n' "$root"
    cat "$root/requirements.lock" "$root/pyproject.toml" | cksum
}

build_environment() {
    local stamp
    stamp="$(environment_stamp)"
    if environment_is_usable; then
        progress "bringing the environment in .venv up to date ..."
    else
        make_venv
    fi
    # Until all is done the stamp holds the path alone: an attempt that was interrupted is taken up again, not redone.
    printf '%s\n' "$root" >"$venv/.stamp"
    # Wheels only: a package that had to be compiled would ask for a compiler, and take minutes. The byte code comes
    # last and for all files at once, because pip would make it on one core.
    uv_install || pip_install "the packages of requirements.lock" "${exactly[@]}" -r "$root/requirements.lock"
    pip_install "Bullpen itself" --no-build-isolation -e "$root"
    "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" >/dev/null 2>&1 || true
    printf '%s\n' "$stamp" >"$venv/.stamp"
    progress "the environment is ready"
}

environment_is_usable() {
    [ "$(head -n 1 "$venv/.stamp" 2>/dev/null)" = "$root" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
    local python
    python="$(find_python)" || exit 1
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make virtual environments; install its venv module (Debian: apt-get install python3-venv)"
    progress "making the environment in .venv (only this once, about a minute) ..."
    "$python" -m venv --clear "$venv" >&2 || fail "could not make $venv: '$python -m venv' failed"
}

find_python() {
    local candidate old=
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
        old="${old:-$("$candidate" --version 2>/dev/null || true)}"
    done
    fail "Python 3.11 or newer is needed, but ${old:-no python3} was found; install it (Debian 12 or newer: apt-get install python3 python3-venv)"
}

exactly=(--only-binary :all: --require-hashes --no-compile)

# uv takes seconds where pip takes minutes. It comes by pip, from the lock, and is told where pip looks; where it does not get through, pip
# does it all.
uv_install() {
    sed -n '/^uv==/,/^[^ ]/p' "$root/requirements.lock" | sed '$d' >"$venv/uv.txt"
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps "${exactly[@]}" -r "$venv/uv.txt" \
        >"$venv/setup.log" 2>&1 || return
    [ -z "${PIP_INDEX_URL-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
    [ -z "${PIP_CERT-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
    # It would try long where it has no way out.
    UV_HTTP_TIMEOUT=20 timeout 90 "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --only-binary :all: --require-hashes \
        -r "$root/requirements.lock" >>"$venv/setup.log" 2>&1
}

# usage: pip_install WHAT OPTION...   The lock is complete, so pip never looks for dependencies of its own.
pip_install() {
    local what="$1" log="$venv/setup.log"
    shift
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps "$@" >"$log" 2>&1 || {
        grep -i error "$log" | tail -n 5 >&2
        fail "could not install $what; the full output of pip is in $log"
    }
}

# usage: apt_install PACKAGE...   Fails when this machine has no apt-get, or we may not use it.
apt_install() {
    local as_root=()
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    progress "installing Debian packages: $*"
    "${as_root[@]}" apt-get update -qq >&2 || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >&2
}
