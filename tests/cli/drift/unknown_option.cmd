kvcal drift A --stats B --max-cliped 1
# exits 2
