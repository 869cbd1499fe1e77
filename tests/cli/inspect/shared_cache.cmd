# Which layer's cache a layer reads that has none of its own.
kvcal inspect "$SOURCE/tests/arch/golden/gemma4/config.json" | grep -A 20 ^layers
