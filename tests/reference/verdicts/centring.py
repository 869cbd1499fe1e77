"""What rows have in common, found in several ways: what of it each row needs no layer to know, carries nothing.

Of all rows together; of rows at about the same position; and where rows fall into kinds, of each kind: rows that say no more
than which of four kinds they are say two bits. No few rows move a center, nor decide where kinds part.
"""
import numpy as np

MOST_KINDS = 4
FAR = 3  # times the distance of the row in the middle: rows beyond move no center
TWO_KINDS = .8  # of what varies along a line is between two kinds; of an even spread 3/4 is between its halves
BLOCK = 32  # rows of neighbouring positions, of all prompts


def distances(y):
    return np.linalg.norm(y - np.median(y, 0), axis=-1)


def near(y):
    """Which rows are not far from the median of all: half of them at least."""
    r = distances(y)
    return r <= FAR * np.median(r)


def shortened(y):
    """Rows that are far drawn near, in the same direction, around the median: no few of them make a direction."""
    r = distances(y)
    most = FAR * np.median(r)
    return (y - np.median(y, 0)) * np.minimum(1, most / np.where(r > 0, r, 1))[:, None]


def best_cut(x):
    """Of ascending numbers around 0, into two runs -> length of the first, the share of Σx² that is between the two"""
    n = np.arange(1, len(x))
    between = np.cumsum(x)[:-1] ** 2 * (1 / n + 1 / (len(x) - n))
    return int(n[between.argmax()]), float(between.max() / max((x * x).sum(), 1e-300))


def two_kinds(y, rows):
    """Rows cut in two along the line on which they are longest; None where they do not fall apart there."""
    if len(rows) < 4:
        return None
    x = shortened(y[rows])
    x = x - x.mean(0)
    along = x @ np.linalg.eigh(x.T @ x)[1][:, -1]
    order = np.argsort(along, kind="stable")
    cut, share = best_cut(along[order])
    return [rows[order[:cut]], rows[order[cut:]]] if share > TWO_KINDS else None


def kinds(y):
    """Yields the groups after each cut."""
    todo, whole = [np.arange(len(y))], []
    while todo and len(todo) + len(whole) < MOST_KINDS:
        rows = todo.pop(0)
        parts = two_kinds(y, rows)
        if parts is None:
            whole.append(rows)
            continue
        todo += parts
        yield todo + whole


def groupings(prompts):
    """-> ways to part the rows of all prompts, each a list of arrays of rows"""
    y = np.concatenate(prompts)
    by_position = np.argsort(np.concatenate([np.arange(len(p)) for p in prompts]), kind="stable")
    blocks = np.array_split(by_position, max(len(y) // BLOCK, 1))
    return [[np.arange(len(y))], blocks, *kinds(y)]


def centered(x, y, groups):
    """x without the mean of its group; of those rows of the group that are near in y."""
    out = np.empty_like(x)
    for rows in groups:
        out[rows] = x[rows] - x[rows[near(y[rows])]].mean(0)
    return out
