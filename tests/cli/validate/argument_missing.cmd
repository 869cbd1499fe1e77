kvcal validate
