# The steps of setup/bootstrap, and the questions whether each is needed.

# What a command or file on the host comes from, where it is absent.
gpufleet_needs="
debootstrap=debootstrap systemd-nspawn=systemd-container nft=nftables ssh=openssh-client
ssh-keygen=openssh-client ip=iproute2 nc=netcat-openbsd gcc=gcc make=make flock=util-linux
gpg=gpg gpg-agent=gpg-agent dpkg-deb=dpkg
setpriv=util-linux nsenter=util-linux /usr/include/stdio.h=libc6-dev
/usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
/etc/ssl/certs/ca-certificates.crt=ca-certificates
"

# What tests compare with and talk to; only for the dev lock.
gpufleet_test_needs="scontrol=slurm-client /usr/sbin/sshd=openssh-server"

missing_packages() {
    local pair found="" needs=$gpufleet_needs
    [ "$gpufleet_lock" != dev ] || needs="$needs $gpufleet_test_needs"
    for pair in $needs; do
        case ${pair%%=*} in
            /*) [ -e "${pair%%=*}" ] && continue ;;
            *) command -v "${pair%%=*}" > /dev/null && continue ;;
        esac
        case " $found " in *" ${pair#*=} "*) ;; *) found="$found ${pair#*=}" ;; esac
    done
    printf '%s' "$found"
}

apt() {
    # Waits for another package manager's lock instead of failing on it.
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() {
    command -v apt-get > /dev/null || {
        echo "this system has no apt-get; install by hand:$1"
        return 1
    }
    apt update
    # Nothing that comes with a package is started: tools are wanted, not services.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' > "$policy"
        chmod 755 "$policy"
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    # shellcheck disable=SC2086  # a list of names
    apt install -y --no-install-recommends $1
}

# Prints a Python that the lock is made for. What is named python3.12 may be a shim that only says
# that it is not set up, so each candidate has to run.
find_python() {
    local version candidate
    for version in 3.12 3.13; do
        for candidate in "$(command -v "python$version" || true)" \
            "$HOME"/.pyenv/versions/"$version".*/bin/python"$version" \
            /usr/bin/python"$version" /usr/local/bin/python"$version" \
            /opt/*/bin/python"$version" \
            "$HOME"/.local/share/uv/python/cpython-"$version"*/bin/python"$version"; do
            [ -x "$candidate" ] || continue
            if "$candidate" -c "import sys, ssl; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2> /dev/null; then
                printf '%s\n' "$candidate"
                return 0
            fi
        done
    done
    return 1
}

get_python() {
    local version
    apt update
    for version in 3.12 3.13; do
        if [ -n "$(apt-cache policy "python$version" | sed -n 's/^  Candidate: \([^(]\)/\1/p')" ]; then
            apt install -y --no-install-recommends "python$version" "python$version-venv"
            return
        fi
    done
    ! command -v uv > /dev/null || uv python install 3.12
}

make_venv() {
    # The marker is written last: a half made one is not used, and is made anew.
    rm -rf "$gpufleet_venv"
    if ! "$1" -m venv "$gpufleet_venv"; then
        apt update
        apt install -y --no-install-recommends \
            "python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
        rm -rf "$gpufleet_venv"
        "$1" -m venv "$gpufleet_venv"
    fi
    "$gpufleet_venv/bin/pip" install --disable-pip-version-check --no-input \
        --require-hashes -r "$gpufleet_root/setup/requirements/$gpufleet_lock.txt"
    # Started often, so compiled once, whatever the shell says about writing byte code.
    "$gpufleet_venv/bin/python" -m compileall -q -j 0 "$gpufleet_venv/lib" > /dev/null || true
    touch "$gpufleet_venv/.ready"
}

pulumi_version() { cat "$gpufleet_root/setup/pulumi/version"; }

# Prints the engine to use: the one in the cache, else one on PATH that is not too old.
find_pulumi() {
    local found
    if [ -x "$gpufleet_cache/bin/pulumi" ] &&
        [ "$(cat "$gpufleet_cache/bin/pulumi.version" 2> /dev/null)" = "$(pulumi_version)" ]; then
        printf '%s\n' "$gpufleet_cache/bin/pulumi"
        return 0
    fi
    found=$(command -v pulumi) || return 1
    [ "$(printf '%s\n' v3.200.0 "$(PULUMI_SKIP_UPDATE_CHECK=true "$found" version)" |
        sort -V | head -n 1)" = v3.200.0 ] && printf '%s\n' "$found"
}

get_pulumi() {
    local version
    version=$(pulumi_version)
    rm -f "$gpufleet_cache/bin/pulumi.version"
    vendor_pulumi "$version" || build_pulumi "$version"
    "$gpufleet_cache/bin/pulumi" version
    printf '%s\n' "$version" > "$gpufleet_cache/bin/pulumi.version"
}

vendor_pulumi() {
    command -v curl > /dev/null || return 1
    local archive=$gpufleet_cache/pulumi.tar.gz folder=$gpufleet_cache/pulumi-$1
    curl -fsSL --connect-timeout 5 --max-time 300 -o "$archive" \
        "https://get.pulumi.com/releases/sdk/pulumi-$1-linux-x64.tar.gz" || return 1
    rm -rf "$folder" && mkdir "$folder"
    tar -xzf "$archive" -C "$folder" --strip-components=1 && rm "$archive"
    ln -sf "$folder/pulumi" "$gpufleet_cache/bin/pulumi"
    rm -f "$gpufleet_cache/bin/pulumi.built"
}

build_pulumi() {
    echo "the vendor's release cannot be fetched; building from the Go module"
    if ! command -v go > /dev/null; then
        apt update
        apt install -y --no-install-recommends golang-go
    fi
    # Since 1.21 a toolchain fetches the newer one that a module asks for.
    go version | awk '{split(substr($3, 3), v, "."); exit !(v[1] > 1 || v[2] >= 21)}' || {
        echo "$(go version) is too old to build Pulumi: install Pulumi or Go 1.21 or newer"
        return 1
    }
    local cache=$gpufleet_cache/go
    # A Go that its owner uses has most modules already; otherwise nothing is left of the build.
    if [ ! -d "$(go env GOMODCACHE)" ]; then
        export GOMODCACHE=$cache/mod GOCACHE=$cache/build
    fi
    (cd "$gpufleet_root/setup/pulumi" && GOTOOLCHAIN=auto GOFLAGS=-mod=readonly go build -v -trimpath \
        -ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$1" \
        -o "$gpufleet_cache/bin/pulumi.new" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi)
    mv "$gpufleet_cache/bin/pulumi.new" "$gpufleet_cache/bin/pulumi"
    touch "$gpufleet_cache/bin/pulumi.built"
    if [ -d "$cache" ]; then
        chmod -R u+w "$cache"
        rm -rf "$cache"
    fi
}

image_ready() {
    [ -e "$gpufleet_venv/.ready" ] &&
        PYTHONPATH=$gpufleet_root "$gpufleet_venv/bin/python" -m infra.local.prepare --check
}

make_image() {
    GPUFLEET_CACHE=$gpufleet_cache PYTHONPATH=$gpufleet_root \
        "$gpufleet_venv/bin/python" -m infra.local.prepare
}

wait_image() {
    # Not a child of this step's shell: watched until it is gone, then asked for its result.
    tail --pid="$1" -n +1 -f "$gpufleet_cache/logs/setup/image.log"
    image_ready
}
