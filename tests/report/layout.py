"""What a person sees of a report: in a browser, at two widths, in light and in dark.

    layout.py REPORT_PAGES [--update] [--keep FOLDER]

--update writes thumbnails.txt anew: look at the pictures (--keep) before you commit it. Exit code 77: there is no browser.
"""
import argparse
import base64
import subprocess
import sys
import tempfile
from pathlib import Path

import browser

THUMBNAILS = Path(__file__).with_name("thumbnails.txt")
WIDTHS = (1280, 400)
SCREEN = 900  # pixels, of a laptop
# Pixels in all before anything is opened, at each width: a fourth above what it is.
TALLEST = {"fine": (2400, 3000), "evaluated": (3600, 5000), "problems": (4200, 6500), "latent": (2400, 3000)}
PICTURED = "evaluated"
CONTRAST = 4.5  # WCAG AA, for text of ordinary size
MOST_DIFFERENT = 1  # of 15 levels of gray, mean over a thumbnail

# Everything is measured in the page, by what the browser made of it.
FUNCTIONS = """
const box = e => e.getBoundingClientRect();
const shown = e => { const b = box(e); return b.width > 0 && b.height > 0 && e.checkVisibility({visibilityProperty: true}); };
const all = (selector, root = document) => [...root.querySelectorAll(selector)].filter(shown);
const name = e => (e.closest('section')?.id ?? '') + ' ' + e.tagName + ' ' + JSON.stringify(e.textContent.slice(0, 40));
const open = () => document.querySelectorAll('details').forEach(d => { d.open = true; });
const beyond = (elements, width) => elements.filter(e => box(e).left < 0 || box(e).right > width).map(name);

const channels = color => color.match(/[\\d.]+/g).map(Number);
const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = color => { const [r, g, b] = channels(color).map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = e => {
  for (; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor, [, , , alpha = 1] = channels(color);
    if (alpha === 1) return color;
    if (alpha > 0) throw new Error('a background that is seen through: ' + name(e));
  }
};
const contrast = e => {
  const style = getComputedStyle(e), [a, b] = [luminance(e.closest('svg') ? style.fill : style.color), luminance(ground(e))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const hasText = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.tagName !== 'title';
const faint = least => all('body *').filter(hasText).filter(e => contrast(e) < least).map(e => contrast(e).toFixed(2) + ' ' + name(e));
const cut = () => all('svg text').filter(e => {
  const b = box(e), s = box(e.closest('svg'));
  return b.left < s.left - 1 || b.right > s.right + 1 || b.top < s.top - 2 || b.bottom > s.bottom + 2;
}).map(name);
"""

# 12 columns of gray, 0 to 15, of a picture.
THUMBNAIL = """(async () => {
  const image = new Image();
  image.src = 'data:image/png;base64,%s';
  await image.decode();
  const canvas = document.createElement('canvas'), w = 12, h = Math.round(w * image.height / image.width);
  [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, w, h);
  const {data} = context.getImageData(0, 0, w, h);
  let text = '';
  for (let i = 0; i < data.length; i += 4) text += Math.round((data[i] + data[i + 1] + data[i + 2]) / 51).toString(16);
  return text;
})()"""


def check_page(chromium, page, width, scheme):
    """What is wrong with it, in words."""
    faults = []

    def measure(expression):
        return chromium.value(f"(() => {{ {FUNCTIONS} return {expression}; }})()")

    def expect_none(what, found):
        if found:
            faults.append(f"{what}: {len(found)}, first {found[0]}")

    chromium.show(page, width, SCREEN, scheme)
    height, limit = measure("document.documentElement.scrollHeight"), TALLEST[page.stem][WIDTHS.index(width)]
    if height > limit:
        faults.append(f"{height} pixels tall, expected at most {limit}")
    if measure("box(document.querySelector('.answers')).bottom") > SCREEN / 2:
        faults.append("the answers are not in the upper half of the first screen")
    if measure("all('ul.map li').length") < 1:
        faults.append("no map of the layers")
    is_dark = measure("luminance(ground(document.body))") < 0.5
    if is_dark != (scheme == "dark"):
        faults.append(f"the page is {'dark' if is_dark else 'light'}")
    measure("open()")
    if (wide := measure("document.documentElement.scrollWidth")) > width:
        faults.append(f"scrolls sideways: {wide} pixels wide")
    if measure("all('#layers td .v').length") < 4:
        faults.append("no answers in the tables of layers")
    expect_none("answers beyond the edge", measure(f"beyond(all('.answers .v, .map li, #layers td .v'), {width})"))
    expect_none("text out of its drawing", measure("cut()"))
    expect_none(f"contrast below {CONTRAST}", measure(f"faint({CONTRAST})"))
    return faults


def thumbnail(chromium, page, width, scheme, kept):
    chromium.show(page, width, SCREEN, scheme)
    picture = chromium.picture()
    if kept:
        (Path(kept) / f"{page.stem}_{width}_{scheme}.png").write_bytes(picture)
    chromium.show("/dev/null", width, SCREEN, scheme)
    return chromium.value(THUMBNAIL % base64.b64encode(picture).decode())


def difference(a, b):
    if len(a) != len(b):
        return 15
    return sum(abs(int(x, 16) - int(y, 16)) for x, y in zip(a, b)) / len(a)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pages")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    if browser.program() is None:
        print("skipped: none of", ", ".join(browser.PROGRAMS))
        sys.exit(77)
    known = dict(line.split() for line in THUMBNAILS.read_text().splitlines()) if THUMBNAILS.exists() else {}
    seen, n_faults = {}, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        subprocess.run([options.pages, folder], check=True)
        chromium = browser.Browser(Path(folder) / "profile")
        for page in sorted(Path(folder).glob("*.html")):
            for width in WIDTHS:
                for scheme in ("light", "dark"):
                    form = f"{page.stem}/{width}/{scheme}"
                    faults = check_page(chromium, page, width, scheme)
                    if page.stem == PICTURED:
                        seen[form] = thumbnail(chromium, page, width, scheme, options.keep)
                        apart = difference(known.get(form, ""), seen[form])
                        if apart > MOST_DIFFERENT and not options.update:
                            faults.append(f"looks otherwise than in thumbnails.txt: {apart:.2f} levels apart")
                    for fault in faults:
                        print(f"{form}: {fault}")
                    n_faults += len(faults)
        chromium.close()
    if options.update:
        THUMBNAILS.write_text("".join(f"{form} {gray}\n" for form, gray in seen.items()))
    sys.exit(1 if n_faults else 0)


if __name__ == "__main__":
    main()
