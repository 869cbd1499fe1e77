# Servers take one list of frequencies for all positions, by the longest context that they allow.
model="$SOURCE/tests/arch/golden/phi3_longrope/config.json"
grep -e '"max_position_embeddings"' -e '"original_max_position_embeddings"' "$model"
kvcal inspect "$model" | grep longrope
kvcal inspect "$model" --max-model-len 6 | grep longrope
kvcal inspect "$model" --max-model-len 6 --json | grep -A 3 longrope
kvcal inspect "$model" --max-model-len -1
# exits 2
