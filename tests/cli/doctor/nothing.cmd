printf 'INFO all is well\n' | kvcal doctor -
