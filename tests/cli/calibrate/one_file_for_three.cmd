# Two outputs that are one file, by links to what is there or not, and by folders.
model=$SOURCE/datasets/demo/natural
ln -s s.json dangling && ln -s . here && mkdir d
for force in "" --force; do
  kvcal calibrate "$model" -q -o s.json --stats dangling $force
  kvcal calibrate "$model" -q -o here/s.json --evaluate d/../s.json $force
  kvcal calibrate "$model" -q -o s.json --stats e.json --evaluate ./e.json $force
done
echo old >s.json && ln s.json hard
kvcal calibrate "$model" -q -o s.json --stats hard --force
kvcal calibrate "$model" -q -o s.json --stats dangling --force
cat s.json
