echo mine >evaluation.json
kvcal evaluate "$SOURCE/datasets/demo/natural"
echo exit $?
cat evaluation.json
