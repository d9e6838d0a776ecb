#!/usr/bin/env bash
# check_house.sh: checks widths, layers, namespaces, public headers, contracts and lengths.
# The rules stand in scripts/check_house.py, their tables in scripts/house_table.py.
exec python3 "$(dirname "$0")/check_house.py" "$@"
