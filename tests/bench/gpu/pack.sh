#!/bin/sh
# pack.sh [--probes] [BUILD]: builds for a Hopper GPU what gpu.sh needs there, and packs it, stripped and with the libraries that
# such a machine may lack: build/gpu.tar.xz, with which gpu.sh measures, and build/gpu-tests.tar.xz with its tests, which together
# would be more than travels at once. CUDA's own libraries are taken there. Needs nvcc. Run from anywhere.
set -eu
cd "$(dirname "$0")/../../.."
probes=
[ "${1:-}" != --probes ] || { probes=yes; shift; }
build=${1:-build/cuda-sm90a}
out=build/gpu
sh .ci/cudnn_frontend.sh >/dev/null || echo 'pack: without cuDNN' >&2
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cmake --preset cuda -B "$build" -DKVCAL_TESTS=ON -DKVCAL_ONEDNN=OFF -DCMAKE_CUDA_ARCHITECTURES=90a-real \
  -DCMAKE_CUDA_FLAGS='-Xfatbin -compress-all' \
  -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
cmake --build "$build" --parallel "$(sh .ci/jobs.sh)" --target gpu_programs kvcal kvcal_cuda write_random_model

rm -rf "$out"
mkdir -p "$out/bin/probes" "$out/lib"
cp "$build/kvcal" "$build/libkvcal_cuda.so" "$build/tests/bench/write_random_model" "$build/tests/gpu/gpu_bench" \
  "$build/tests/gpu/test_parity_gpu" "$build/tests/gpu/test_arch_gpu" "$out/bin"
[ -z "$probes" ] || cp "$build"/tests/gpu/probes/* "$out/bin/probes"
[ ! -f "$build/tests/gpu/libtimeline.so" ] || cp "$build/tests/gpu/libtimeline.so" "$out/bin"
strip "$out"/bin/kvcal "$out"/bin/*.so "$out"/bin/write_random_model "$out"/bin/gpu_bench "$out"/bin/test_*
[ -z "$probes" ] || strip "$out"/bin/probes/*
# Debian's libraries, but neither C nor C++ nor CUDA: older ones of those run on a newer system.
for program in "$out"/bin/kvcal "$out"/bin/test_arch_gpu; do
  ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*|libcu[a-zA-Z]*|libnv[a-zA-Z]*)\.so' || true
done | sort -u | xargs -r cp -L -t "$out/lib"
git rev-parse --short=12 HEAD >"$out/commit" 2>/dev/null || echo unknown >"$out/commit"
# Programs share most of their code: a dictionary of 64 MiB sees that.
pack() {
  name=$1
  shift
  tar -cf - "$@" "$out" | xz --x86 --lzma2=preset=9e >"$name.tar.xz"
  sh tests/bench/gpu/fits.sh "$name.tar.xz"
}
pack "$out" --exclude='test_*'
pack "$out-tests" --exclude=kvcal --exclude='*.so' --exclude=gpu_bench --exclude=write_random_model --exclude=probes
echo 'on the GPU machine: tar -xJf build/gpu.tar.xz && sh tests/bench/gpu.sh --results FOLDER'
