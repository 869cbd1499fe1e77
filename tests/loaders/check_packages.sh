#!/bin/sh
# check_packages.sh KVCAL SOURCE OUT: functions of vLLM-Ascend, ModelOpt, compressed-tensors and onnxruntime-genai on exports
# of golden and demo models. run.sh calls it; alone it needs PYTHON with torch, transformers, safetensors, pydantic, loguru,
# psutil and ml_dtypes, and pip, which may be another's: PIP. Sources are unpacked below REF, about 2 GB with vLLM's, and stay there.
set -eu
kvcal=$1 source=$2 out=$3
here=$source/tests/loaders python=${PYTHON:-python3}
pip=${PIP:-$python -m pip}
ref=${REF:-$HOME/.cache/kvcal-loaders}/packages
mkdir -p "$ref" "$out"

# wheel PACKAGE VERSION: unpacked in $ref/PACKAGE-VERSION.
wheel() {
  [ -d "$ref/$1-$2" ] && return
  $pip download -q --no-deps --only-binary :all: -d "$ref/download" "$1==$2"
  "$python" -m zipfile -e "$ref/download/"*-"$2"-*.whl "$ref/$1-$2.part"
  rm -r "$ref/download" && mv "$ref/$1-$2.part" "$ref/$1-$2"
}
wheel nvidia-modelopt 0.48.0rc1
wheel compressed-tensors 0.20.1
wheel onnxruntime-genai 0.18.0
wheel vllm 0.30.0
# It has no wheel, and building its metadata needs an NPU's packages: what pip unpacked before that is kept.
ascend=$ref/vllm-ascend-0.30.0rc2
if [ ! -d "$ascend" ]; then
  mkdir -p "$ref/unpacked"
  TMPDIR=$ref/unpacked $pip download -q --no-deps --no-build-isolation --no-clean --no-binary :all: -d "$ref/unpacked" \
    vllm-ascend==0.30.0rc2 >"$ref/unpacked/log" 2>&1 || true
  mv "$(dirname "$(find "$ref/unpacked" -type d -name vllm_ascend | head -n 1)")" "$ascend"
  rm -r "$ref/unpacked"
fi

failed=0
check() {
  echo "$*" | sed "s|$ref/||g; s|$out/||g; s|$here/||g"
  "$python" "$here/$@" || failed=1
}

# scales MODEL NAME OPTION...: a scale file NAME.json of it; 1 says that layers need them.
scales() {
  model=$1 name=$2
  shift 2
  "$kvcal" calibrate "$model" --prompts "$source/datasets/demo/prompts.jsonl" --max-prompts 8 -q --force -o "$out/$name.json" "$@" || [ $? = 1 ]
}
# export_to MODEL NAME TARGET PLACE OPTION...
export_to() {
  model=$1 name=$2 target=$3 place=$4
  shift 4
  "$kvcal" export "$out/$name.json" --model "$model" --to "$target" -o "$out/$place" --force --json "$@" >"$out/$place.report"
  "$python" "$here/expect.py" "$out/$place.report" "$out/$name.json" "$out/$place.expect.json"
}

demo=$source/datasets/demo/stressed
scales "$demo" fp8 --policy absmax
export_to "$demo" fp8 vllm compressed
PYTHONPATH=$ref/compressed-tensors-0.20.1 check check_compressed_tensors.py "$out/compressed"
"$kvcal" evaluate "$demo" --prompts "$source/datasets/demo/prompts.jsonl" --max-prompts 8 --scales "$out/fp8.json" -q --force \
  --choose fp8_e4m3,fp8_e4m3:nvfp4 --max-kl 2.7e-5 -o "$out/mixture.json"
export_to "$demo" fp8 modelopt modelopt --recipe "$out/mixture.json"
check check_modelopt.py "$out/modelopt" "$out/fp8.json" --source "$ref/nvidia-modelopt-0.48.0rc1/modelopt"
export_to "$demo" fp8 ort-genai genai.json
check check_ort_genai.py "$out/genai.json" --expect "$out/genai.json.expect.json" --config "$demo/config.json" \
  --source "$ref/onnxruntime-genai-0.18.0"
scales "$demo" channels --dtype int8 --granularity channel
for target in vllm-ascend ascend-mxfp8; do
  export_to "$demo" channels $target $target
  check check_vllm_ascend.py "$out/$target" --expect "$out/$target.expect.json" --source "$ascend" --vllm "$ref/vllm-0.30.0/vllm"
done
check check_vllm_ascend.py --latent --source "$ascend"
check check_vllm_ascend.py --classes --vllm "$ref/vllm-0.30.0/vllm"
exit $failed
