kvcal generate "$SOURCE/datasets/demo/stressed" --prompt 'What is 7 * 8?' --json --top 2
