# Showing long steps: a line that moves on a terminal, one line now and then elsewhere.

fail() {
    printf 'gpufleet setup: %s\n' "$*" >&2
    exit 1
}

# step NUMBER NAME COMMAND...: run a command with its output in a log of its own.
step() {
    local number=$1 name=$2 log
    shift 2
    log=$gpufleet_cache/logs/setup/step-$number.log
    local label="[$number/$total] $name" began=$SECONDS told=0
    "$@" > "$log" 2>&1 9>&- &
    local pid=$!
    while kill -0 "$pid" 2> /dev/null; do
        if [ -t 2 ]; then
            printf '\r\033[K%s (%d s) %s' "$label" "$((SECONDS - began))" \
                "$(tail -n 1 "$log" | tr -d '\r' | cut -c1-60)" >&2
        elif [ $((SECONDS - began)) -ge "$told" ]; then
            printf '%s (%d s)\n' "$label" "$((SECONDS - began))" >&2
            told=$((told + 30))
        fi
        sleep 0.2
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
    if ! wait "$pid"; then
        tail -n 15 "$log" >&2
        fail "$name failed; the log is $log. Run it again to go on from here"
    fi
    printf '%s: done (%d s)\n' "$label" "$((SECONDS - began))" >&2
}
