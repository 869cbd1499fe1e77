# What other programs take for a model of the Hub.
exec 2>&1
for model in hf:org/name hf://org/name https://huggingface.co/org/name https://huggingface.co/org/name/tree/main \
  https://huggingface.co/org/name/ http://hf.co/org/name?x=1 huggingface.co/org/name huggingface:org/na.me-1B \
  https://example.org/org/name https://huggingface.co/ hf: hf:name; do
  kvcal calibrate $model
done
for input in HF:org/name Hf.co/org/name HTTPS://huggingface.co/org/name s3://bucket/model gs://b/m file:///m; do
  kvcal plan $input --gpu H100; kvcal validate $input; kvcal doctor $input
done
kvcal plan hf:org/name --gpu H100
echo '--- folders of a cache'
mkdir -p models--org--name models--org--empty/snapshots
kvcal inspect models--org--name; kvcal doctor models--org--empty/; kvcal validate models--org--empty
HF_HUB_CACHE=$PWD kvcal export s.json --model org/name --to scales --also-for hf:org/name -o x
kvcal validate s.json --model hf:org/name
# exits 2
