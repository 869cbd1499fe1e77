kvcal drift A --stats B --max-clipped -1
# exits 2
