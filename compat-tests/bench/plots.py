"""Curves as SVG: latency by percentile, throughput by partitions."""

import math
import re
import statistics

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 380, 60, 40, 40, 190
COLOURS = {"cold": "#d9a878", "kafka": "#b5651d", "ottla": "#1f6fb2"}


def chart(title, ticks, unit, series):
    """`ticks`: names along the x axis; `series`: [(name, colour, [y for each tick])]. The y axis is logarithmic."""
    values = [y for *_, ys in series for y in ys if y]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def x(place):
        return LEFT + (WIDTH - LEFT - RIGHT) * place / max(1, len(ticks) - 1)

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (math.log10(value) - low) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="20" font-size="14">{title}</text>']
    for power in range(low, high + 1):
        at = y(10 ** power)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/><text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    parts += [f'<text x="{x(place):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick}</text>' for place, tick in enumerate(ticks)]
    parts.append(f'<text x="8" y="{TOP - 6}">{unit}</text>')
    for row, (name, colour, ys) in enumerate(series):
        line = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(ys) if value)
        style = f'fill="none" stroke="{colour}" stroke-width="2"'
        legend = TOP + 16 * row
        parts.append(f'<polyline points="{line}" {style}/><path d="M{WIDTH - RIGHT + 10} {legend}h24" {style}/>'
                     f'<text x="{WIDTH - RIGHT + 40}" y="{legend + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def median_curve(runs, name, what):
    """The median of each percentile over the runs."""
    curves = [run[name]["curves"][what] for run in runs if what in run.get(name, {"curves": ()})["curves"]]
    return {str(points[0][0]): statistics.median(value for _, value in points) for points in zip(*curves)}


def latency(scenario, runs, what):
    series, ticks = [], []
    for name, colour in COLOURS.items():
        curve = median_curve(runs, name, what)
        ticks = list(curve) or ticks
        series += [(name, colour, list(curve.values()))] if curve else []
    return chart(f"{scenario}: {what}", [f"{float(tick):g}" for tick in ticks], "ms, by percentile", series)


def by_partitions(runs):
    figure, series, ticks = re.compile(r"(\d+) partitions, MB/s"), [], []
    for name, colour in COLOURS.items():
        seen = [run[name]["figures"] for run in runs if name in run]
        counts = [match[1] for match in map(figure.fullmatch, seen[0] if seen else ()) if match]
        ticks = counts or ticks
        series += [(name, colour, [statistics.median(each[f"{count} partitions, MB/s"] for each in seen) for count in counts])] if seen else []
    return chart("s2-partitions: the same bytes over more partitions", ticks, "MB/s, by partitions", series)


def draw(results, beside):
    """Writes the plots of what was measured beside a file; [(title, path)]."""
    drawn = []

    def write(title, svg):
        path = beside.with_name(f"{beside.stem}-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.svg")
        path.write_text(svg)
        drawn.append((title, path))

    for scenario, runs in results.items():
        curves = dict.fromkeys(what for run in runs for seen in run.values() for what in seen["curves"])
        for what in curves:
            # What is read tells of what is acknowledged, too.
            if what.replace(" ack", " end to end") in curves and what.endswith(" ack"):
                continue
            write(f"{scenario} {what}", latency(scenario, runs, what))
    if runs := results.get("s2-partitions"):
        write("s2 by partitions", by_partitions(runs))
    return drawn
