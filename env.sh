# `. ./env.sh`, in the checkout: the tools of gpufleet for your shell, on the state it uses, so that
# `cd infra && pulumi up --stack local` and `ansible-playbook` by hand do what the tool does.
gpufleet_root=$(pwd)
if [ ! -e "$gpufleet_root/setup/common.sh" ]; then
    echo "env.sh: source it from the top of the checkout" >&2
else
    . "$gpufleet_root/setup/common.sh"
    if [ -e "$gpufleet_venv/.ready" ]; then
        gpufleet_environment
        mkdir -p -m 0700 "$gpufleet_state/pulumi"
    else
        echo "env.sh: the tools are not there yet; run: make setup" >&2
    fi
fi
