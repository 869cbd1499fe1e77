kvcal drift A --stats B --max-cliped 1
