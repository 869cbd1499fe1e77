kvcal plan "$SOURCE/datasets/demo/natural" --gpu GB300
