#!/usr/bin/env bash
# settings_page.sh GPUFS PAGE: docs/settings.md (PAGE) is what `gpufs settings --markdown` prints.
# shellcheck source=SCRIPTDIR/../support/complain.sh
. "$(dirname "$0")/../support/complain.sh"
"$1" settings --markdown >"$folder/page" || complain "gpufs settings --markdown failed"
diff "$2" "$folder/page" >"$folder/difference" ||
  complain "$2 is not what gpufs settings --markdown prints: $(head -n 20 "$folder/difference")"
"$1" settings | grep "^page_size  *4K " >/dev/null || complain "gpufs settings: no page_size"
conclude
