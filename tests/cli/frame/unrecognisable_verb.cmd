kvcal frobnicate
