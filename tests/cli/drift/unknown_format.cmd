kvcal drift A --stats B --format promtheus
