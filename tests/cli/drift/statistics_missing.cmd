kvcal drift A
# exits 2
