"""expect.py REPORT SCALES FILE: {"layers": {layer: {"k" or "v": scales}}}, what a loader must give, of what 'export --json'
says. MTP layers are counted from 0 again."""
import json
import sys

report, scales, file = sys.argv[1:]
drafts = [layer["index"] for layer in json.load(open(scales)).get("mtp_layers", [])]
layers = {}
for scale in json.load(open(report))["scales"]:
    index = scale["layer"]
    layer = f"mtp.{drafts.index(index)}" if index in drafts else str(index)
    layers.setdefault(layer, {})[scale["site"][0]] = scale["values"]
json.dump({"layers": layers}, open(file, "w"), indent=1)
