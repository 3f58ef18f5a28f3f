"""Every page under a folder, as an XML parser sees it.

    python3 check_pages.py FOLDER

Well formed; nothing to load; drawings named for those who do not see them; headings in order; shares of the width between
0 and 100 percent; no number that is none; no drawing without size.
"""

import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "section", "div", "span", "small", "h1", "h2", "h3", "p", "ul", "ol", "li", "figure",
    "figcaption", "table", "thead", "tbody", "tr", "th", "td", "pre", "dl", "dt", "dd", "details", "summary", "footer",
    "svg", "g", "rect", "line", "path", "circle", "text",
}
ATTRIBUTES = {
    "lang", "charset", "name", "content", "class", "style", "title", "role", "aria-label", "aria-hidden", "tabindex", "scope",
    "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d", "width", "height", "viewBox", "preserveAspectRatio", "overflow", "transform", "fill",
    "stroke-width", "stroke-dasharray",
}
LARGEST = 5_000_000


def problems_of(path):
    text = path.read_text(encoding="utf-8")
    try:
        root = xml.fromstring(text)
    except xml.ParseError as error:
        return [f"not well formed: {error}"]
    found = []
    if len(text) > LARGEST:
        found.append(f"{len(text)} bytes, more than {LARGEST}")
    headings = []
    for element in root.iter():
        if element.tag not in ALLOWED:
            found.append(f"<{element.tag}>")
        for name, value in element.attrib.items():
            if name not in ATTRIBUTES:
                found.append(f"{name}=\"{value[:40]}\" on <{element.tag}>")
            if name in {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"}:
                number = re.fullmatch(r"(-?[0-9.]+)(%?)", value)
                if not number:
                    found.append(f"{name}=\"{value[:40]}\" is no number")
                elif number[2] and not -2 <= float(number[1]) <= 102:
                    found.append(f"{name}=\"{value}\" lies outside of its drawing")
                elif name in {"width", "height", "r"} and float(number[1]) < 0:
                    found.append(f"{name}=\"{value}\" is negative")
            if name == "d" and not re.fullmatch(r"[-MLHVCz0-9. ]+", value):
                found.append(f"a path of {value[:40]}")
            if name == "style" and "url" in value:
                found.append("a style that loads something")
        if element.tag == "svg" and element.get("role") == "img" and not element.get("aria-label"):
            found.append("a drawing without a name")
        if element.tag in {"h1", "h2", "h3"}:
            headings.append(element.tag)
            if not "".join(element.itertext()).strip():
                found.append(f"an empty {element.tag}")
    if headings[:1] != ["h1"] or headings.count("h1") != 1:
        found.append("not one h1 at the top")
    style = "".join(element.text or "" for element in root.iter("style"))
    if re.search(r"url\(|@import|@font-face", style):
        found.append("a style sheet that loads something")
    if style.count("{") != style.count("}"):
        found.append("a style sheet with unbalanced braces")
    # Layers are drawn in classes that the style sheet must know.
    used = {word for element in root.iter() for word in element.get("class", "").split() if re.fullmatch(r"[ls][0-9]+", word)}
    for name in sorted(used):
        if f".{name}{{" not in style:
            found.append(f"class {name} has no colour")
    return found


def main():
    pages = sorted(Path(sys.argv[1]).glob("*/index.html"))
    if not pages:
        sys.exit(f"{sys.argv[1]}: no pages")
    failed = False
    for page in pages:
        for problem in dict.fromkeys(problems_of(page)):
            print(f"{page}: {problem}")
            failed = True
    print(f"{len(pages)} pages read")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
