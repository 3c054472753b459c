# Sourced by scripts/build-page, scripts/check-page.sh and scripts/check-exports.sh: the tools for the page, from npm, pinned.
# shellcheck shell=bash

# page_tools: installs the tools once, and prints their folder.
page_tools() {
    local sources=$root/collector/html folder=$root/downloads/page lock
    mkdir -p "$root/downloads"
    # Checks run side by side, and each of them may be the first.
    exec {lock}>"$root/downloads/page.lock"
    flock "$lock"
    if ! cmp -s "$sources/package-lock.json" "$folder/.complete"; then
        local tool
        for tool in node npm; do
            command -v "$tool" >/dev/null || { echo "$(basename "$0"): $tool is missing" >&2; exit 1; }
        done
        rm -rf "$folder"
        mkdir -p "$folder"
        cp "$sources/package.json" "$sources/package-lock.json" "$folder"
        # No package runs anything of its own as it is installed.
        (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --silent) >&2 || {
            echo "$(basename "$0"): npm could not install the page's tools (is its registry reachable?)" >&2
            exit 1
        }
        cp "$sources/package-lock.json" "$folder/.complete"
    fi
    exec {lock}>&-
    echo "$folder"
}
