cp "$SOURCE/datasets/demo/natural/config.json" .
kvcal inspect config.json
