""".ci/newest.py with an archive and a dpkg that are made for it: what 'make dist' refuses to bundle, and what .ci/run upgrades."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "newest.py"

# Every package is 1.0 in dpkg but libpng16-16, whose version lies in a file; the archive has 1.0 of all but that one.
DPKG_QUERY = """#!/bin/sh
for package; do
  version=1.0
  case $package in
    -*) continue ;;
    libpng16-16) version=$(cat "$FAKE/png") ;;
  esac
  echo "installed $package $version"
done
"""
APT_CACHE = """#!/bin/sh
for package; do :; done
version=1.0
case $package in libpng16-16*) version=1.6.39-2+deb12u6 ;; esac
[ $package != "$UNKNOWN" ] || { printf '%s:\\n  Installed: 1.0\\n  Candidate: 1.0\\n  Version table:\\n *** 1.0 100\\n        100 /var/lib/dpkg/status\\n' $package; exit; }
printf '%s:\\n  Installed: 1.0\\n  Candidate: %s\\n  Version table:\\n     %s 500\\n        500 http://archive stable/main amd64 Packages\\n' $package $version $version
"""
APT_GET = """#!/bin/sh
for word; do
  [ $word != update ] || exit $UPDATE
  [ $word != install ] || { echo "$*" >>"$FAKE/installs"; echo 1.6.39-2+deb12u6 >"$FAKE/png"; }
done
"""


class Newest(unittest.TestCase):
    def setUp(self):
        self.fake = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.fake)
        sudo = '#!/bin/sh\nshift\nexec "$@"\n'
        for name, text in {"dpkg-query": DPKG_QUERY, "apt-cache": APT_CACHE, "apt-get": APT_GET, "sudo": sudo}.items():
            (self.fake / name).write_text(text)
            (self.fake / name).chmod(0o755)

    def run_with(self, png, *arguments, update=0, unknown="", allowed=""):
        (self.fake / "png").write_text(png)
        environment = {**os.environ, "PATH": f"{self.fake}:{os.environ['PATH']}", "FAKE": str(self.fake), "UPDATE": str(update),
                       "UNKNOWN": unknown, "KVCAL_DIST_UNCHECKED": allowed}
        done = subprocess.run([sys.executable, SCRIPT, *arguments], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertLessEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.returncode, done.stderr

    def test_the_newest_passes_in_silence(self):
        for png in ("1.6.39-2+deb12u6", "1.6.40-1"):  # one of a later release, too
            self.assertEqual(self.run_with(png), (0, ""))

    def test_an_older_one_is_refused_with_the_way_out(self):
        code, said = self.run_with("1.6.39-2+deb12u4")
        self.assertEqual(code, 1)
        self.assertIn("libpng16-16 is 1.6.39-2+deb12u4, the archive offers 1.6.39-2+deb12u6; "
                      "run: apt-get update && apt-get install --only-upgrade libpng16-16", said)
        self.assertNotIn("libzstd1", said)
        self.assertEqual(self.run_with("1.6.39-2+deb12u4", allowed="1")[0], 1)

    def test_upgrade_installs_it(self):
        self.assertEqual(self.run_with("1.6.39-2+deb12u4", "--upgrade"), (0, ""))
        self.assertIn("--only-upgrade --no-install-recommends libpng16-16\n", (self.fake / "installs").read_text())

    def test_upgrade_of_the_newest_installs_nothing(self):
        self.assertEqual(self.run_with("1.6.39-2+deb12u6", "--upgrade"), (0, ""))
        self.assertFalse((self.fake / "installs").exists())

    def test_an_archive_that_does_not_answer_is_refused_unless_allowed(self):
        for how in ({"update": 100}, {"unknown": "libonig5"}):
            code, said = self.run_with("1.6.39-2+deb12u6", **how)
            self.assertEqual(code, 1)
            self.assertIn("newest: not known whether", said)
            self.assertIn("KVCAL_DIST_UNCHECKED=1", said)
            code, said = self.run_with("1.6.39-2+deb12u6", allowed="1", **how)
            self.assertEqual(code, 0)
            self.assertIn("newest: not known whether", said)

    def test_of_another_processor_the_packages_are_unpacked_again(self):
        code, said = self.run_with("1.6.39-2+deb12u4", "arm64")
        self.assertEqual(code, 1)
        self.assertIn("libpng16-16:arm64 is 1.6.39-2+deb12u4", said)
        self.assertIn("run: rm -r build/arm64-packages", said)


if __name__ == "__main__":
    if not shutil.which("dpkg"):  # it compares versions
        print("skipped: not a Debian system")
        sys.exit(77)
    unittest.main()
