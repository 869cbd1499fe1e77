mkdir folder && echo GGUF >folder/model-Q4_K_M.gguf
kvcal calibrate folder
kvcal calibrate folder/model-Q4_K_M.gguf
# exits 2
