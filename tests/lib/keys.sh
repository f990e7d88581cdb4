# Clusters with keys; scripts that have one source this file.
# shellcheck shell=bash

# shown_by NODE: its extent and its key, as it prints them.
shown_by() { sed -nE 's/.*flashmob key pin CONFIG.toml ([0-9a-f]{32} [0-9a-f]{64}).*/\1/p' "$DIR/$1.log" | head -n 1; }

# pin NODE [OPTION...]: pins the key that the node prints.
pin() {
    # shellcheck disable=SC2046 # two words
    "$FLASHMOB" key pin "$DIR/gateway.toml" $(shown_by "$1") "${@:2}"
}
