kvcal generate "$SOURCE/datasets/demo/natural" --prompt 'What is 7 * 8 + 3?' --precision f32 --threads 1 --top 0
