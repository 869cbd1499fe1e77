# Only where the formatter is installed; the text is checked by the rules.
command -v man >/dev/null || exit 0
MANROFFSEQ="" man --warnings -l "$SOURCE/apps/kvcal.1" >page.txt && grep -c "^EXIT STATUS" page.txt >/dev/null
