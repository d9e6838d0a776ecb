#!/usr/bin/env bash
# info_program.sh GPUFS: what `gpufs info` says of settings: where they come from, and whether there
# is a filesystem with them.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
gpufs=$1
cd "$folder" || exit 1

# origin KEY WANTED ARGUMENT...: the setting KEY comes from WANTED.
origin() {
  local key=$1 wanted=$2 said
  shift 2
  said=$("$gpufs" info --json "$@" 2>message |
    python3 -c 'import json,sys; print(json.load(sys.stdin)["settings"][sys.argv[1]]["origin"])' \
      "$key") || complain "$key $*: $(cat message)"
  [ "$said" = "$wanted" ] || complain "$key $*: comes from $said, not $wanted"
}

origin cache_size default
origin cache_size --cache-size --cache 1M
GPUFS_CACHE_SIZE=1M origin cache_size GPUFS_CACHE_SIZE
GPUFS_CACHE_SIZE=1M origin cache_size --cache-size --cache-size 2M
# By former names.
GPUFS_WINDOW_SIZE=128K origin file_window_size GPUFS_WINDOW_SIZE
origin file_window_size --window-size --window-size 128K
GPUFS_CONTEXT_SLOTS=99 origin seats GPUFS_CONTEXT_SLOTS
# The file has the default, or a former name.
default=$("$gpufs" info --json |
  python3 -c 'import json,sys; print(json.load(sys.stdin)["settings"]["cache_size"]["value"])')
printf 'cache_size = "%s"\nwindow_size = "128K"\n' "$default" >gpufs.toml
origin cache_size file
origin file_window_size file
origin page_size default
mv gpufs.toml other.toml
origin cache_size file --config other.toml
origin cache_size default

"$gpufs" info --trace "" --spill-dir "" >/dev/null || complain "settings that may be empty"

# Settings with which there is no filesystem.
json=$("$gpufs" info --json --cache 16T) || complain "info --cache 16T failed"
[[ $json == *'"no_filesystem": "cache_size=16T: '* && $json != *'"backend"'* ]] ||
  complain "info --cache 16T: $json"
[[ $("$gpufs" info) == *"with these settings the daemon reads with "* ]] || complain "no backend"
conclude
