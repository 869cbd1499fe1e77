# Forms of --json output that no other case prints; the test holds each to its schema (schemas/output-*).
M="$SOURCE/datasets/demo/stressed" P="$SOURCE/datasets/demo/prompts.jsonl" G="$SOURCE/tests/arch/golden"
quiet() { kvcal "$@" --json >/dev/null 2>err || { code=$?; [ $code = 1 ] || { echo "$* exits $code"; cat err; }; }; }
for c in "$G"/*/config.json; do quiet inspect "$c"; done
for m in qwen3 gemma3 gpt_oss deepseek_v32 jamba granite_hybrid qwen3_moe_fp8; do
  quiet inspect "$G/$m"; quiet plan "$G/$m/config.json" --gpu-memory 1GiB; quiet plan "$G/$m/config.json" --gpu-memory 1MiB --allowance 1KiB
done
quiet calibrate "$M" -p "$P" --max-prompts 2 -q -o s.json --stats s.kvstats
quiet calibrate "$M" -p "$P" --max-prompts 2 -q -o s.json --stats s.kvstats --if-changed
quiet calibrate "$M" -p "$P" --max-prompts 3 -q -o s.json --stats s.kvstats --if-changed
quiet calibrate "$M" -p "$P" --max-prompts 4 -q --shard 1/2 --stats 1.kvstats
quiet calibrate "$M" -p "$P" --max-prompts 2 -q -o int8.json --dtype int8 --granularity head
quiet diff s.json int8.json; quiet diff s.json s.kvstats; quiet drift int8.json --stats s.kvstats; quiet drift s.json --stats s.kvstats --max-growth 0
cp -r "$M" model
quiet export s.json --model model --in-place; quiet validate model --scales s.json; quiet validate model --server sglang; quiet inspect model
quiet export --undo --model model; quiet export s.json --model model --to lightllm --dry-run -o j.json
quiet validate s.kvstats; quiet validate s.json --model model --server vllm@0.33; quiet stats 1.kvstats
echo '!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!' >answer.txt
quiet doctor --list; quiet doctor answer.txt model s.json --gpu H100
quiet doctor --command 'vllm serve model --kv-cache-dtype fp8 --calculate-kv-scales' --server vllm@0.20.0
printf '%s\n' 'INFO 11-01 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.20.0)' \
  'WARNING 11-01 10:00:01 [kv_cache.py:2] Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale scaling factors are properly set in the checkpoint.' >server.log
quiet doctor server.log
