kvcal generate --help
