"$CMAKE" --install "$BUILD" --prefix "$PWD/prefix" >install.log || cat install.log
cd prefix
find . -type f | grep -v -e '/kvcal/datasets/' -e '/doc/' | sort
find . -path './share/kvcal/datasets/*' -type f | grep -c . >/dev/null || echo 'no datasets'
find . -path '*/doc/*' -name '[RCc]*.md' | sort
bin/kvcal --version | head -n 1
