kvcal doctor --help | tail -5
