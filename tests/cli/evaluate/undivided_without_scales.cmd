kvcal evaluate "$SOURCE/datasets/demo/stressed" --undivided
