# Moved after installation, and without the tree above it.
"$CMAKE" --install "$BUILD" --prefix "$PWD/prefix" >install.log || cat install.log
mv prefix elsewhere
elsewhere/bin/kvcal prompts elsewhere/share/kvcal/datasets/demo/natural | tail -n 2
