# Sourced by the scripts of this folder, which are called as: sh SCRIPT KVCAL SOURCE. Makes an empty folder, goes there,
# removes it at the end.
set -u
kvcal=$1 source=$2
demo=$source/datasets/demo/natural
scratch=$(mktemp -d)
clean_up() { rm -rf "$scratch"; }
trap 'clean_up' EXIT
cd "$scratch" || exit 1
failed=0

skip() {
  echo "skipped: $1"
  exit 77
}

complain() {
  echo "FAILED: $1"
  failed=1
}

# The program is a script's only one that reports: at most one line of error, whatever warnings are before it.
one_line() {
  [ "$(grep -c '^kvcal: error: ' "$1")" -eq 1 ] || complain "$2: not one error line: $(cat "$1")"
  [ "$(tail -n 1 "$1" | grep -c '^kvcal: ')" -eq 1 ] || complain "$2: something follows the error: $(cat "$1")"
}

# fails_with CODE TEXT COMMAND...: exits with CODE, after one error line that has TEXT in it.
fails_with() {
  code=$1 text=$2
  shift 2
  "$@" >out.txt 2>err.txt
  actual=$?
  [ $actual -eq "$code" ] || complain "$*: exit code $actual, expected $code: $(cat err.txt)"
  one_line err.txt "$*"
  grep -qF -- "$text" err.txt || complain "$*: no '$text' in: $(cat err.txt)"
}

no_temporaries() {
  left=$(find "$1" -name '.kvcal-*.tmp' | head -n 3)
  [ -z "$left" ] || complain "$2 left behind: $left"
}

# small_model FOLDER: the demo model, to be broken.
small_model() {
  mkdir "$1" && cp "$demo"/* "$1"/
}

finish() { exit $failed; }
