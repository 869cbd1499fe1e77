# Of a wheel, the program finds CUDA's libraries among the packages that it is one of, whichever python3 is in PATH.
built=$BUILD/tests/emulated
packages=env/lib/python3.12/site-packages
mkdir -p "$packages/kvcal/bin" "$packages/nvidia/cu99/lib"
cp "$built/kvcal" "$built/libcuda.so.1" "$built/needy/libkvcal_cuda.so" "$packages/kvcal/bin"
try() {
  "$packages/kvcal/bin/kvcal" generate "$SOURCE/datasets/demo/natural" --prompt x --max-new-tokens 1 --json --device cuda 2>/dev/null | wc -l
}
try
cp "$built/needed/libcublasLt.so.99" "$packages/nvidia/cu99/lib"
try
