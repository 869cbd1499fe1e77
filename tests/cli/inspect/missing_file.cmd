kvcal inspect nowhere
