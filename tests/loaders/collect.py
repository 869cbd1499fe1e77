"""collect.py OUT CASES RESULTS...: what run_cases.py found, as the file to be committed; one line per case.

A result counts only for the input that the case has now.
"""

import json
import os
import sys

from run_cases import input_sha256


def main(out, cases_path, *paths):
    with open(cases_path) as file:
        current = {f"{c['server']} {c['name']}": input_sha256(c) for c in json.load(file)}
    found = {}
    for path in paths:
        if os.path.exists(path):
            with open(path) as file:
                found |= {key: value for key, value in json.load(file).items() if value["input"] == current.get(key)}
    rows = []
    for key in sorted(found):
        result = found[key]
        keep = ("server", "case", "verdict", "architecture", "carrier", "spelling", "with_query", "effect", "message")
        rows.append({k: result[k] for k in keep if result.get(k)} | ({} if result["as_wanted"] else {"as_wanted": False}))
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w") as file:
        file.write('{\n "results": [\n' + lines + "\n ]\n}\n")
    servers = sorted({row["server"] for row in rows})
    print(f"{out}: {len(rows)} cases of {', '.join(servers)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
