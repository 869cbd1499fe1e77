#!/bin/sh
# fits.sh PACK [MIB]: says whether what gpu.sh needs of this tree (travels.txt), files that git does not know yet included, travels
# to a GPU machine together with the pack, as an archive of tar: it takes so many MiB (64) at once. PACK may be the number of bytes
# that are left for it.
set -eu
cd "$(dirname "$0")/../../.."
most=$((${2:-64} << 20))
pack=$1
[ ! -f "$pack" ] || pack=$(stat -c %s "$pack")
tree=$(sed 's|^/||' tests/bench/gpu/travels.txt | xargs git ls-files -z --cached --others --exclude-standard -- | xargs -0 stat -c %s 2>/dev/null | awk '{ n += int(($1 + 511) / 512 + 1) * 512 } END { print n + 0 }')
echo "tree $tree bytes, pack $pack, together $((tree + pack)) of $most"
[ $((tree + pack)) -lt "$most" ] || { echo 'fits: too large to travel' >&2; exit 1; }
