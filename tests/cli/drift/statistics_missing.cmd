kvcal drift A
