kvcal diff nowhere nowhere
# exits 2
