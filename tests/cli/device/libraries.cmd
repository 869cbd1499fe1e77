# The backend's library lies beside the program or where an installation has it; one that does not fit is refused.
built=$BUILD/tests/emulated
cp "$built/kvcal" "$built/libcuda.so.1" .
try() {
  ./kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --max-new-tokens 1 --json --device "$@" | wc -l
}
try cuda
cp "$built/stale/libkvcal_cuda.so" .
try cuda
echo text >libkvcal_cuda.so
try cuda
rm libkvcal_cuda.so
mkdir -p prefix/bin
mv kvcal libcuda.so.1 prefix/bin
cd prefix/bin
library=$(./kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --device cuda 2>&1 | sed 's/.* nor .\(.*\)libkvcal_cuda.so.*/\1/')
mkdir -p "$library"
cp "$built/libkvcal_cuda.so" "$library"
try cuda
./kvcal --version | tail -n 1
