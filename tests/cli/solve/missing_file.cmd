kvcal solve nowhere
