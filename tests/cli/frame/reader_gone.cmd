# The reader of the output leaves at once: no message.
kvcal --help | true
