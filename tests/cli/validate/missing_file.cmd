kvcal validate nowhere
