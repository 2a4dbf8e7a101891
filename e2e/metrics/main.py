"""What Prometheus' own Python reader finds in a scrape.

    main.py classic|openmetrics FILE  ──▶  stdout: a line a family: name, type, labels

The reader of OpenMetrics is strict: it refuses what the format forbids. Of some labels the values are
printed, too, as by controller-runtime/metrics.go, whose lines these are compared with.
"""

import math
import sys

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

FIXED = {"result"}


def same(what, seen, wanted):
    if seen != wanted:
        raise SystemExit(f"{what}: {seen!r}, and it should be {wanted!r}")


def check_histogram(family):
    """Buckets grow, the last one is infinite and has all observations."""
    buckets, counts = {}, {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        series = tuple(sorted(labels.items()))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(series, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[series] = sample.value
    same(f"the series of {family.name}", buckets.keys(), counts.keys())
    for series, found in buckets.items():
        same(f"the bounds of {family.name} {series}", found, sorted(found))
        same(f"the last bound of {family.name} {series}", found[-1][0], math.inf)
        same(f"the count of {family.name} {series}", found[-1][1], counts[series])
        values = [value for _, value in found]
        same(f"the buckets of {family.name} {series}", values, sorted(values))


def line(family):
    name = family.name
    if family.type == "counter" and not name.endswith("_total"):
        name += "_total"
    labels = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label not in ("le", "quantile"):
                labels.setdefault(label, set())
                if label in FIXED:
                    labels[label].add(value)
    words = [name, family.type]
    for label in sorted(labels):
        values = sorted(labels[label])
        words.append(f"{label}={'|'.join(values)}" if values else label)
    return " ".join(words)


def main():
    form, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if form == "openmetrics":
        same("the end", text.endswith("# EOF\n"), True)
        families = list(openmetrics.text_string_to_metric_families(text))
    else:
        families = list(parser.text_string_to_metric_families(text))
    same("two families of one name", len({family.name for family in families}), len(families))
    for family in families:
        if family.type == "histogram":
            check_histogram(family)
    for text in sorted(line(family) for family in families if family.samples):
        print(text)


if __name__ == "__main__":
    main()
