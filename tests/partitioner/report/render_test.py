"""The pages in a browser: on a phone and on a wide screen, light, dark and printed.

    python3 render_test.py PAGES [PICTURES]

Asks of each: nothing in the console, nothing requested, no sideways scrolling of the page, text that neither overlaps other
text of its drawing nor leaves the page, text that stands out from what it lies on, both themes applied, paper always
light. With PICTURES it leaves a PNG of each and a PDF there, for eyes, which takes longer than the questions. Ends with 77 (skipped) where there is no Chromium.
"""

import sys
from pathlib import Path

from browser import Browser, find_chromium

WIDTHS = (360, 1440)

# Texts of one drawing whose boxes share more than a pixel or two each way; what CSS hides has no box.
OVERLAPS = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg[role=img]')) {
    const boxes = [];
    for (const text of svg.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      if (box.width > 0) boxes.push([box, text.textContent]);
    }
    for (let i = 0; i < boxes.length; ++i)
      for (let j = 0; j < i; ++j) {
        const [a, s] = boxes[i], [b, t] = boxes[j];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1.5 && down > 4) found.push(`"${s}" on "${t}" in ${svg.getAttribute('aria-label').slice(0, 40)}`);
      }
  }
  return found.slice(0, 10);
})()"""

OUTSIDE = """(() => {
  const found = [];
  for (const element of document.querySelectorAll('h1,h2,h3,p,li,span,dd,text,figure')) {
    if (element.closest('.scroll')) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5)) found.push(`${element.tagName} ${element.textContent.slice(0, 40)}`);
  }
  return found.slice(0, 10);
})()"""

# WCAG contrast of text against the nearest background, at least 4.5.
FAINT = """(() => {
  const light = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const parts = (color) => color.match(/[0-9.]+/g).map(Number);
  const luminance = (color) => { const [r, g, b] = parts(color); return 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b); };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (parts(color).length < 4 || parts(color)[3] > 0.5) return color;
    }
    return 'rgb(255,255,255)';
  };
  const found = new Set();
  for (const element of document.querySelectorAll('h1,h2,h3,p,li,span,dt,dd,td,th,pre,small,summary,footer,text')) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const style = getComputedStyle(element), ink = luminance(element.tagName === 'text' ? style.fill : style.color), paper = luminance(behind(element));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (ratio < 4.5) found.add(`${element.tagName}.${element.getAttribute('class') || ''} ${ratio.toFixed(2)}`);
  }
  return [...found].slice(0, 10);
})()"""

BRIGHTNESS = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b) / 765"


def problems_of(tab, dark):
    found = list(tab.problems)
    width = tab.evaluate("document.documentElement.scrollWidth")
    if width > tab.width:
        found.append(f"{width} pixels wide on a screen of {tab.width}")
    if tab.evaluate("document.querySelectorAll('section').length") < 5:
        found.append("sections are missing")
    found += [f"text {pair}" for pair in tab.evaluate(OVERLAPS)]
    found += [f"outside of the screen: {what}" for what in tab.evaluate(OUTSIDE)]
    found += [f"faint: {what}" for what in tab.evaluate(FAINT)]
    brightness = tab.evaluate(BRIGHTNESS)
    if (brightness < 0.3) != dark:
        found.append(f"a background of {brightness:.2f} in the {'dark' if dark else 'light'} theme")
    return found


def printed(tab, path):
    """Printing from a dark screen."""
    tab.theme(dark=True, media="print")
    found = []
    if tab.evaluate(BRIGHTNESS) < 0.99:
        found.append("printed on dark paper")
    wide = tab.evaluate("document.documentElement.scrollWidth")
    if wide > tab.width:
        found.append(f"printed {wide} pixels wide on {tab.width}")
    if path is not None:
        tab.print_to(path)
        if not path.read_bytes().startswith(b"%PDF"):
            found.append("no PDF")
    return found


def main():
    pages, pictures = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    chromium = find_chromium()
    if chromium is None:
        print("skipped: no Chromium (Debian package chromium)")
        sys.exit(77)
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    names = sorted(path.parent.name for path in pages.glob("*/index.html"))
    if not names:
        sys.exit(f"{pages}: no pages")
    failed = False
    with Browser(chromium) as browser:
        for name in names:
            for width in WIDTHS:
                tab = browser.open(pages / name / "index.html", width)
                for dark in (False, True):
                    tab.theme(dark)
                    found = problems_of(tab, dark)
                    if pictures:
                        tab.picture(pictures / f"{name}-{width}-{'dark' if dark else 'light'}.png")
                    for problem in found:
                        print(f"{name}, {width} pixels, {'dark' if dark else 'light'}: {problem}")
                    failed = failed or bool(found)
                tab.close()
            tab = browser.open(pages / name / "index.html", 718)  # what A4 has between its margins
            for problem in printed(tab, pictures / f"{name}.pdf" if pictures else None):
                print(f"{name}, printed: {problem}")
                failed = True
            tab.close()
    print(f"{len(names)} pages" + (f" drawn into {pictures}" if pictures else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
