kvcal drift A --stats B --max-clipped -1
