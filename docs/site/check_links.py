"""check_links.py FOLDER: every link of the built pages leads to a page and a place that exist in FOLDER."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def target_of(root, page, link):
    path = unquote(urlsplit(link).path)
    target = (root / path.lstrip("/") if path.startswith("/") else page.parent / path) if path else page
    return (target / "index.html" if target.is_dir() else target).resolve()


def broken(root, pages):
    for page, content in pages.items():
        for link in content.links:
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target, anchor = target_of(root, page, link), unquote(urldefrag(link).fragment)
            if not target.exists():
                yield f"{page.relative_to(root)}: {link} leads nowhere"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{page.relative_to(root)}: {link}: no such place"


def main(root):
    # The page for addresses that do not exist may be shown anywhere: its links begin at the top.
    pages = {path: Page(path) for path in sorted(root.rglob("*.html")) if path.name != "404.html"}
    findings = list(broken(root, pages))
    print("\n".join(findings) or f"{sum(len(p.links) for p in pages.values())} links of {len(pages)} pages lead somewhere")
    return bool(findings) or not pages


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
