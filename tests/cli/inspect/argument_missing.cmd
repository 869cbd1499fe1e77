kvcal inspect
