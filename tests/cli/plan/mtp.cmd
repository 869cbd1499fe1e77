# The cache of an MTP layer, which a server keeps where it drafts tokens: one more of the same kind.
golden="$SOURCE/tests/arch/golden"
kvcal plan "$golden/glm4_moe/config.json" --gpu-memory 4GB --context 512 >without
kvcal plan "$golden/glm4_moe/config.json" --gpu-memory 4GB --context 512 --mtp >with
grep -h "^model:\|a token\|drafts" without with
kvcal plan "$golden/glm4_moe/config.json" --gpu-memory 4GB --context 512 --mtp --json | grep "n_caches\|n_mtp"
kvcal plan "$golden/qwen3/config.json" --gpu-memory 4GB --mtp
echo '{}' >evaluation.json
kvcal plan "$golden/glm4_moe/config.json" --gpu-memory 4GB --recipe evaluation.json --mtp
# exits 2
