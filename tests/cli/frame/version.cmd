kvcal --version
