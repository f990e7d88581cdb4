#!/usr/bin/env python3
"""Checks that every relative link and #anchor in the repository's Markdown files resolves.

Run it anywhere in the repository: tests/links.py. Anchors follow GitHub's rules. Exit status 1 if a link is broken.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folders that .gitignore names, and git's own.
GENERATED = {'.git', 'target', '.cache', 'corpus', 'artifacts', 'coverage', 'proptest-regressions'}
LINK = re.compile(r'\]\(([^()\s]+)\)|(?:src|srcset|href)="([^"]+)"')


def text_without_code(path):
    return re.sub(r'^(\s*)```.*?^\s*```', '', path.read_text(), flags=re.M | re.S)


def anchors(path):
    found = {}
    for title in re.findall(r'^#+ +(.*?) *#*$', text_without_code(path), flags=re.M):
        title = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', title)
        slug = re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-')
        count = found.get(slug, 0)
        found[slug] = count + 1
        yield f'{slug}-{count}' if count else slug
    yield from re.findall(r'<a (?:id|name)="([^"]+)"', path.read_text())


def broken(path):
    for match in LINK.finditer(re.sub(r'`[^`\n]*`', '', text_without_code(path))):
        target = match[1] or match[2]
        if re.match(r'[a-z]+:', target):
            continue
        name, _, anchor = target.partition('#')
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield target, 'no such file'
        elif anchor and file.suffix == '.md' and anchor not in anchors(file):
            yield target, 'no such heading'


def main():
    # Not by git: a fresh machine has none, and an archive of the sources has no history.
    documents = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name not in GENERATED)
        documents += [pathlib.Path(folder, name) for name in sorted(names) if name.endswith('.md')]
    problems = [f'{path.relative_to(ROOT)}: {target}: {why}' for path in documents for target, why in broken(path)]
    print('\n'.join(problems) or 'every link resolves')
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main())
