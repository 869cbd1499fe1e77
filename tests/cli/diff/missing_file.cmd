kvcal diff nowhere nowhere
