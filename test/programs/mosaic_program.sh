#!/usr/bin/env bash
# mosaic_program.sh BIN_DIR DATA_DIR: the program mosaic from end to end. It uses a synthetic
# database, then tiles and a picture that Python reads, then real pictures. `make fetch-data` puts
# those into DATA_DIR. Exit status 77: no device.
set -uo pipefail
bin=$1
data=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
complain() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
settings=(--staging 8M --prefetch-memory 8M --cache 1M --rpc-timeout 120s)
# verified COUNT ARGUMENT...: `mosaic make` checks COUNT variants and finds all of them right.
verified() {
  local wanted=$1 said
  shift
  said=$("$bin/mosaic" make --check --json "$@" "${settings[@]}" 2>&1)
  [[ $said == *"no device to run on"* ]] && exit 77
  [ "$(grep -c '"verified": true' <<<"$said")" -eq "$wanted" ] || complain "make $*: $said"
}
# refuses TEXT ARGUMENT...: mosaic says that text.
refuses() {
  local wanted=$1 said
  shift
  said=$("$bin/mosaic" "$@" 2>&1)
  [[ $said == *"$wanted"* ]] || complain "$*: $said"
}

refuses "No such file" make --data "$folder/none"
"$bin/mosaic" generate --data "$folder/db" --tiles 100 >/dev/null || complain "generate"
refuses "tiles.lsh: No such file: these tiles have no index; make it with: mosaic index" \
  make --data "$folder/db"
# A source that gives no tiles leaves the database; its own pictures can be the source.
before=$(cat "$folder/db/tiles.hist" "$folder/db/tiles.rgba" | sha256sum)
head -c 5000 /dev/urandom >"$folder/junk.rgba"
mkdir "$folder/empty"
mkfifo "$folder/empty/pipe"  # would be waited for
: >"$folder/none.rgba"
for source in junk.rgba none.rgba empty empty/pipe; do
  "$bin/mosaic" import "$folder/$source" --data "$folder/db" >/dev/null 2>&1 &&
    complain "import of $source was accepted"
done
"$bin/mosaic" import "$folder/db/tiles.rgba" --data "$folder/db" >/dev/null ||
  complain "import of the database's own pictures"
[ "$before" = "$(cat "$folder/db/tiles.hist" "$folder/db/tiles.rgba" | sha256sum)" ] ||
  complain "the database has changed"
[ -z "$(compgen -G "$folder/db/*part*")" ] || complain "left behind: $(ls "$folder/db")"
"$bin/mosaic" index --data "$folder/db" --json | grep -q '"lost": 0' || complain "index"
[ "$(stat -c %s "$folder/db/tiles.hist" "$folder/db/tiles.rgba" | sort -u)" = 409600 ] ||
  complain "tiles.hist, tiles.rgba"

refuses "--tiles=0: must be from 1 to 2147483648" generate --data "$folder/no" --tiles 0
refuses "--size" generate --data "$folder/no" --tiles 100 --size medium
[ ! -e "$folder/no" ] || complain "generate: a refused database was made"
refuses "mosaic: --output=: must name a file or folder" make --data "$folder/db" --output ""
ln -s loop.png "$folder/loop.png"
refuses "mosaic: --input=$folder/loop.png: Too many levels of symbolic links" make \
  --data "$folder/db" --input "$folder/loop.png"
refuses "mosaic: $folder/loop.png: Too many levels of symbolic links" import "$folder/loop.png" \
  --data "$folder/db"

# What has the name of tiles and is something else stays.
mkdir "$folder/foreign"
echo mine >"$folder/foreign/tiles.hist"
for command in "generate --tiles 10" "import $folder/db/tiles.rgba"; do
  # shellcheck disable=SC2086 # words
  refuses "foreign: its tiles.hist holds no histograms" $command --data "$folder/foreign"
done
[ "$(cat "$folder/foreign/tiles.hist")" = mine ] || complain "a foreign tiles.hist was replaced"
refuses "--output=$folder/none.rgba/b: $folder/none.rgba is no folder" make --data "$folder/db" \
  --output "$folder/none.rgba/b"
refuses "--input=$folder/empty/pipe: must be a regular file" make --data "$folder/db" \
  --input "$folder/empty/pipe"

# Other tiles have no index.
cp -r "$folder/db" "$folder/again"
"$bin/mosaic" generate --data "$folder/again" --tiles 50 | grep -q "the index was of other tiles" ||
  complain "generate does not say that the index is gone"
refuses "tiles.lsh: No such file: these tiles have no index" make --data "$folder/again"

# A picture of 3 x 2 tiles.
head -c 18432 /dev/urandom >"$folder/noise.rgb8"
printf 'rows=64\ncolumns=96\n' >"$folder/noise.rgb8.meta"
head -c 18432 "$folder/noise.rgb8" >"$folder/small.rgb8"
printf 'rows=6\ncolumns=1024\n' >"$folder/small.rgb8.meta"
verified 8 --data "$folder/db" --input "$folder/noise.rgb8" --mode cpu,cpuio,gread,gmmap,array \
  --hist-page-size 4K,64K --output "$folder/out"
[ "$(head -c 4 "$folder/out/mosaic.png" | tail -c 3)" = PNG ] || complain "no mosaic.png"
verified 1 --data "$folder/db" --input "$folder/noise.rgb8" --level block --advice normal --cold
verified 1 --data "$folder/db" --target self --mode cpu --host-reads mmap

for option in --level=block --blocks=4 --threads=64 --advice=normal --hist-page-size=4K; do
  refuses "mosaic: $option: is of --mode=gread, gmmap" make --data "$folder/db" --mode cpu $option
done
for option in --advice=normal --hist-page-size=4K; do
  refuses "mosaic: $option: is of --mode=gread, gmmap" make --data "$folder/db" --mode cpuio $option
done
refuses "mosaic: --host-reads=mmap: is of --mode=cpu" make --data "$folder/db" --host-reads mmap
for option in --size=paper --target=self --seed=3; do
  refuses "mosaic: $option: is of a generated picture, and --input=$folder/noise.rgb8 is read" \
    make --data "$folder/db" --input "$folder/noise.rgb8" $option
done
refuses "must be a multiple of 32 from 32 to 256" make --data "$folder/db" --threads 512
refuses "must have at least 32 x 32" make --data "$folder/db" --input "$folder/small.rgb8"
# Without the tiles' pictures no mosaic can be written. That is told before any run.
"$bin/mosaic" generate --data "$folder/bare" --tiles 100 --histograms-only >/dev/null &&
  "$bin/mosaic" index --data "$folder/bare" >/dev/null || complain "generate --histograms-only"
said=$("$bin/mosaic" make --data "$folder/bare" --mode cpu --output "$folder/bare-out" 2>&1)
[ $? -eq 2 ] && [[ $said == "mosaic: --output=$folder/bare-out: a mosaic needs the pictures"* ]] ||
  complain "make without tiles.rgba: $said"
head -c 4096 "$folder/db/tiles.rgba" >"$folder/bare/tiles.rgba"
refuses "bare/tiles.rgba has 1 tiles, " make --data "$folder/bare" --output "$folder/bare-out"
[ ! -e "$folder/bare-out" ] || complain "a folder was made for no mosaic"

# A database and its index must fit each other.
truncate -s -4096 "$folder/db/tiles.hist"
refuses "has 99 tiles, its index 100: make that again" make --data "$folder/db"
refuses "--bits=40: must be from 0 to 31" index --data "$folder/db" --bits 40

# Pictures by Python: the mosaic itself, and an IDX file of two pictures of 28 x 28.
if python3 -c 0 2>/dev/null; then
  { printf '\0\0\10\3\0\0\0\2\0\0\0\34\0\0\0\34' && head -c 1568 /dev/urandom; } >"$folder/two.idx"
  "$bin/mosaic" import "$folder/two.idx" --data "$folder/idx" | grep -q "^2 tiles" ||
    complain "import of an IDX file"
  "$bin/mosaic" index --data "$folder/idx" >/dev/null || complain "index of an IDX file"
  verified 2 --data "$folder/idx" --input "$folder/out/mosaic.png" --mode cpu,gread
  mkdir "$folder/idx.none"
  refuses "no tiles could be taken from it" import "$folder/idx.none" --data "$folder/empty"
fi

# A Pillow of a virtual environment is used. This one reads any file as a grey picture.
if /usr/bin/python3 -c 0 2>/dev/null && ! /usr/bin/python3 -c 'import PIL' 2>/dev/null; then
  mkdir -p "$folder/venv/bin" "$folder/venv/lib/PIL" "$folder/pictures"
  cat >"$folder/venv/lib/PIL/__init__.py" </dev/null
  cat >"$folder/venv/lib/PIL/Image.py" <<'END'
import contextlib


class Grey:
    size = (32, 32)

    def convert(self, mode):
        return self

    def tobytes(self):
        return b"\x80\x80\x80\xff" * 1024


class DecompressionBombError(Exception):
    pass


def open(path):
    if path.endswith("bomb.ppm"):
        raise DecompressionBombError("too many pixels")
    return contextlib.nullcontext(Grey())
END
  printf '#!/bin/sh\nPYTHONPATH="%s" exec /usr/bin/python3 "$@"\n' "$folder/venv/lib" \
    >"$folder/venv/bin/python3"
  chmod +x "$folder/venv/bin/python3"
  echo "no PNG" >"$folder/pictures/a.ppm"
  PATH="$folder/venv/bin:$PATH" "$bin/mosaic" import "$folder/pictures" --data "$folder/grey" |
    grep -q "^1 tiles" || complain "a Pillow of a virtual environment was not used"
  # A picture that Pillow holds for an attack is one that cannot be read.
  echo "no PNG" >"$folder/pictures/bomb.ppm"
  PATH="$folder/venv/bin:$PATH" "$bin/mosaic" import "$folder/pictures" --data "$folder/grey" |
    grep -q "^1 tiles" || complain "a picture that is too large ended the import"
fi

if [ -e "$data/icons.rgba" ] && [ -e "$data/coffee.rgb8" ]; then
  "$bin/mosaic" import "$data/icons.rgba" --data "$folder/icons" >/dev/null &&
    "$bin/mosaic" index --data "$folder/icons" --centre >/dev/null ||
    complain "the icons"
  settings=(--staging 8M --prefetch-memory 8M --cache 8M --rpc-timeout 120s)
  verified 1 --data "$folder/icons" --input "$data/chelsea.rgb8"
else
  echo "no real pictures in $data: make fetch-data"
fi
echo "$failures failed"
[ $failures -eq 0 ]
