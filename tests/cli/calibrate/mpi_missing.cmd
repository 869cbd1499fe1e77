# The program alone: no library beside it.
cp "$KVCAL" . && ./kvcal calibrate M --mpi
# exits 2
