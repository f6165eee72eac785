"""Compares figures with those that were kept: `NAME FIGURE` in lines on standard input, kept ones in a file as `KEY NAME FIGURE`.

    kept-figures.py FILE KEY [--keep]

The key says what the figures depend on beside the code: the processor's kernel of parity, and who made it. Fails if a figure is
larger than its kept one by more than 3 %. With --keep the figures become the kept ones of their key.
"""

import os
import sys

MORE_MAX = 0.03


def read_kept(path):
    """Figures by key and name."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return {}
    return {(key, name): int(figure) for key, name, figure in lines}


def keep(path, kept, key, figures):
    """Writes the figures in place of what was kept under the key."""
    others = {place: figure for place, figure in kept.items() if place[0] != key}
    others.update({(key, name): figure for name, figure in figures})
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# key, what, figure; written with --keep\n")
        for (owner, name), figure in sorted(others.items()):
            file.write(f"{owner} {name} {figure}\n")


def compare(kept, key, figures):
    """Prints each figure beside its kept one; the names of those that are too large."""
    worse = []
    for name, figure in figures:
        before = kept.get((key, name))
        if before is None:
            print(f"{name:24} {figure:>9}  none kept")
            continue
        change = figure / before - 1
        note = ""
        if change > MORE_MAX:
            worse.append(name)
            note = "  TOO MANY"
        elif change < -MORE_MAX:
            note = "  fewer: --keep makes this the figure to hold"
        print(f"{name:24} {figure:>9}  kept {before:>9}  {change:+.1%}{note}")
    return worse


def main(path, key, *options):
    kept = read_kept(path)
    figures = [(name, int(figure)) for name, figure in (line.split() for line in sys.stdin)]
    if not figures:
        sys.exit("no figures to compare")
    worse = compare(kept, key, figures)
    if "--keep" in options:
        keep(path, kept, key, figures)
        print(f"kept under {key} in {path}")
        return
    if not any(owner == key for owner, _ in kept):
        print(f"nothing to compare with: no figures are kept for {key}; --keep keeps these")
    elif worse:
        sys.exit(f"more than 3 % above what is kept for {key}: {', '.join(worse)}; if that is meant, --keep makes it the figure to hold")


if __name__ == "__main__":
    main(*sys.argv[1:])
