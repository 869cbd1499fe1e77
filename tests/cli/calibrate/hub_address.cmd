# What other programs take for a model of the Hub.
exec 2>&1
for model in hf:org/name hf://org/name https://huggingface.co/org/name https://huggingface.co/org/name/tree/main \
  https://huggingface.co/org/name/ http://hf.co/org/name?x=1 huggingface.co/org/name huggingface:org/na.me-1B \
  https://example.org/org/name https://huggingface.co/ hf: hf:name; do
  kvcal calibrate $model
done
kvcal plan hf:org/name --gpu H100
kvcal validate s.json --model hf:org/name
