"""Every link of every page leads somewhere in the tree, a file, a folder, or a heading of a page; and files named in the text are there.

    check_pages.py SOURCE_DIR
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/.-])((?:core|deploy|fpga|gpu|node|partitioner|tests|transport)/[\w/-]+\.(?:h|proto|sh|py|md|json))\b")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
NOT_OURS = {"build", "runs", ".git"}


def anchors(text):
    """As they are made of headings: small letters, hyphens for blanks, nothing else."""
    return {re.sub(r"[^\w\- ]", "", line.lstrip("# ").strip().lower()).replace(" ", "-")
            for line in CODE.sub("", text).splitlines() if line.startswith("#")}


def main(root):
    problems, links = [], 0
    pages = [path for path in sorted(root.rglob("*.md")) if not NOT_OURS & set(path.relative_to(root).parts)]
    for page in pages:
        for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if "://" in link:
                continue
            links += 1
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                problems.append(f"{page.relative_to(root)}: {link} leads nowhere")
            elif anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text(encoding="utf-8"))):
                problems.append(f"{page.relative_to(root)}: {link}: no such heading")
        for name in NAMED.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if not (root / name).exists():
                problems.append(f"{page.relative_to(root)}: names {name}, which does not exist")
    for folder in ("core", "transport", "partitioner", "node", "fpga", "gpu", "deploy", "tests", "core/plan"):
        if not (root / folder / "README.md").exists():
            problems.append(f"{folder} has no page")
    print("\n".join(problems) or f"{len(pages)} pages, {links} links: all there")
    return 1 if problems or links == 0 else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
