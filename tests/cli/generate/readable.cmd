kvcal generate "$SOURCE/datasets/demo/natural" --prompt 'What is 7 * 8?'
