# Shared by everything that runs gpufleet: where things are. Sourced by sh and bash; sets
# gpufleet_root (the checkout) beforehand, and keeps to names that begin with gpufleet_.

gpufleet_cache=${GPUFLEET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufleet}
gpufleet_state=${GPUFLEET_STATE:-/var/lib/gpufleet}
# The lock in use: `dev` for tests and checks, `run` for everything else.
gpufleet_lock=${GPUFLEET_LOCK:-run}

gpufleet_key() {
    # What the tools in the cache are made from; another content is another set of tools.
    cat "$gpufleet_root/setup/requirements/$gpufleet_lock.txt" \
        "$gpufleet_root/setup/pulumi/go.mod" "$gpufleet_root/setup/pulumi/version" \
        "$gpufleet_root/setup/bootstrap" | sha256sum | cut -c1-16
}

gpufleet_venv=$gpufleet_cache/venv-$gpufleet_lock-$(gpufleet_key)

gpufleet_environment() {
    # The tools in front of PATH, and Pulumi on the state that the command line uses.
    PATH=$gpufleet_venv/bin:$gpufleet_cache/bin:$gpufleet_root/bin:$PATH
    if [ ! -e "$gpufleet_cache/bin/pulumi" ] || [ -e "$gpufleet_cache/bin/pulumi.built" ]; then
        # After everything else: the vendor's own language host is preferred wherever it is.
        PATH=$PATH:$gpufleet_root/setup/pulumi/bin
    fi
    PYTHONPATH=$gpufleet_root:$gpufleet_root/agent
    PULUMI_HOME=${PULUMI_HOME:-$gpufleet_cache/pulumi-home}
    PULUMI_BACKEND_URL=${PULUMI_BACKEND_URL:-file://$gpufleet_state/pulumi}
    if [ -z "${PULUMI_CONFIG_PASSPHRASE_FILE:-}" ]; then
        # No secret is ever in a stack's settings, so there is nothing for a passphrase to keep.
        PULUMI_CONFIG_PASSPHRASE=${PULUMI_CONFIG_PASSPHRASE:-}
        export PULUMI_CONFIG_PASSPHRASE
    fi
    PULUMI_SKIP_UPDATE_CHECK=true
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true
    GPUFLEET_CACHE=$gpufleet_cache
    export PATH PYTHONPATH PULUMI_HOME PULUMI_BACKEND_URL PULUMI_SKIP_UPDATE_CHECK \
        PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION GPUFLEET_CACHE
}
