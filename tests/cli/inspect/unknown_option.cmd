kvcal inspect X --josn
