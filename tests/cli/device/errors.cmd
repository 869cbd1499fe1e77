# What can be wrong with a device is one line, and nothing is written.
try() {
  "$BUILD/tests/emulated/kvcal" generate "$SOURCE/datasets/demo/natural" --prompt x --max-new-tokens 1 --device "$@"
  echo $?
}
try cuda:1
try cuda:7
for state in 'with old driver' hidden 'error 100' 'error 801' 'error 802' 'error 803' 'error 999' old 'of another make' full; do
  export KVCAL_EMULATED_DEVICE="$state"
  try cuda
done
