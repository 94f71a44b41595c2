"""The slow twin of the allocation oracle: every way to split the patients."""


def splits(patients, hospitals):
    """Every tuple of `hospitals` amounts that sum to `patients`, those with the fewest in the last ones first."""
    if hospitals == 1:
        yield (patients,)
        return
    for last in range(patients + 1):
        for rest in splits(patients - last, hospitals - 1):
            yield (*rest, last)


def best_split(values, patients):
    """(allocation, total): the first of the best."""
    best, largest = None, float("-inf")
    for split in splits(patients, len(values)):
        total = 0.0
        for row, amount in zip(values, split, strict=True):
            total = total + row[amount]
        if total > largest:
            best, largest = split, total
    return best, largest
