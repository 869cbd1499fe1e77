kvcal plan
