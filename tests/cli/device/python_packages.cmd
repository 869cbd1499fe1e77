# A library of CUDA that the system does not know is found among the packages of PATH's python3.
built=$BUILD/tests/emulated
cp "$built/kvcal" "$built/libcuda.so.1" "$built/needy/libkvcal_cuda.so" .
try() {
  ./kvcal generate "$SOURCE/datasets/demo/natural" --prompt x --max-new-tokens 1 --json --device cuda | wc -l
}
packages=env/lib/python3.12/site-packages/nvidia/cu99/lib
mkdir -p env/bin "$packages"
: >env/bin/python3
PATH=$PWD/env/bin:$PATH
try
cp "$built/needed/libcublasLt.so.99" "$packages"
try
echo text >"$packages/libcublasLt.so.99"
try
