printf 'services:\n  web:\n    image: nginx\n' > compose.yaml
printf 'AssertionError: Aiter MLA only supports 16 or 128 number of heads.\n' > server.log
kvcal doctor compose.yaml server.log | head -2
