kvcal doctor --command 'ls -l'
# exits 2
