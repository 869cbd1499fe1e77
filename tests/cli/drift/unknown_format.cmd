kvcal drift A --stats B --format promtheus
# exits 2
