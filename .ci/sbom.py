#!/usr/bin/env python3
"""sbom.py VERSION EPOCH TREE: the parts of a tarball or wheel, as SPDX 2.3 on standard output.

TREE is an installed tarball: its libraries are those of the wheel too. They are Debian's, named as dpkg names them;
so are the headers that were compiled in.
"""

import datetime
import hashlib
import json
import pathlib
import subprocess
import sys

# One without a license here is an error: somebody has to read its copyright file.
LIBRARIES = {
    "libdnnl2": "Apache-2.0",
    "libgomp1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libjpeg62-turbo": "IJG AND BSD-3-Clause AND Zlib",
    "libonig5": "BSD-2-Clause",
    "libpng16-16": "libpng-2.0",
    "libutf8proc2": "MIT",
    "libwebp7": "BSD-3-Clause",
    "libwebpdemux2": "BSD-3-Clause",
    "libyaml-0-2": "MIT",
    "libzstd1": "BSD-3-Clause",
    "ocl-icd-libopencl1": "BSD-2-Clause",
}
HEADERS = {
    "libcli11-dev": "BSD-3-Clause",
    "libeigen3-dev": "MPL-2.0",
    "libtomlplusplus-dev": "MIT",
    "libvalijson-dev": "BSD-2-Clause",
    "nlohmann-json3-dev": "MIT",
}
SUPPLIER = "Organization: Debian"


def dpkg(*arguments):
    return subprocess.run(["dpkg-query", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def debian_part(package, license_id):
    version, arch = dpkg("--show", "--showformat=${Version} ${Architecture}\n", package).splitlines()[0].split()
    return {
        "SPDXID": f"SPDXRef-{package}",
        "name": package,
        "versionInfo": version,
        "supplier": SUPPLIER,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": license_id,
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{package}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={arch}",
            }
        ],
    }


def bundled(file):
    """The package that a library of the tree is a copy of: its licenses lie beside it under the package's name."""
    packages = dpkg("--search", "*/" + file.name).splitlines()
    names = {line.split(":")[0] for line in packages if "diversion" not in line}
    owners = sorted(names & {license.name for license in (file.parent / "licenses").iterdir()})
    if len(owners) != 1:
        raise SystemExit(f"sbom: {file.name} is of {owners or names}, expected one package")
    part = debian_part(owners[0], LIBRARIES[owners[0]])
    part["packageFileName"] = f"lib/kvcal/{file.name}"
    part["checksums"] = [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}]
    return part


def main(version, epoch, tree):
    ours = {
        "SPDXID": "SPDXRef-kvcal",
        "name": "kvcal",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": "Apache-2.0",
        "licenseConcluded": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }
    files = sorted(path for path in pathlib.Path(tree, "lib", "kvcal").iterdir() if ".so" in path.name)
    libraries = [bundled(file) for file in files]
    headers = [debian_part(*item) for item in HEADERS.items()]
    link = lambda a, kind, b: {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
    relations = [link("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-kvcal")]
    relations += [link("SPDXRef-kvcal", "DYNAMIC_LINK", part["SPDXID"]) for part in libraries]
    relations += [link("SPDXRef-kvcal", "STATIC_LINK", part["SPDXID"]) for part in headers]
    content = hashlib.sha256(json.dumps(libraries + headers).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"kvcal-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/kvcal-{version}-{content[:16]}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: kvcal-sbom"],
        },
        "packages": [ours, *libraries, *headers],
        "relationships": relations,
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
