kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 200MiB --allowance 100MiB --concurrency 36 --context 2048 | grep "^keep_bf16"
kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 200MiB --allowance 100MiB --concurrency 38 --context 2048 | grep "^use_fp8"
kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 200MiB --allowance 100MiB --concurrency 71 --context 2048 | grep "^load_does"
