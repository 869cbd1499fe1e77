kvcal plan "$SOURCE/datasets/demo/natural"
