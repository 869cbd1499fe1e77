kvcal doctor --command 'ls -l'
