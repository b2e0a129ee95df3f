"""Picture of a batch's jobs over time."""

from __future__ import annotations

import html
import math

from isthmus import units
from isthmus.advise.batches import PHASES, label, spans_of

# Colours that differ in lightness, so that they can be distinguished in grey and by the colour-blind (Okabe and Ito).
_COLOURS = ("#E69F00", "#56B4E9", "#0072B2", "#009E73", "#999999", "#D55E00")


def _ticks(longest: float) -> list[float]:
    step = 10 ** math.floor(math.log10(longest))
    for part in (0.1, 0.2, 0.5, 1, 2):
        if longest / (part * step) <= 10:
            step *= part
            break
    return [i * step for i in range(math.floor(longest / step) + 1)]


def svg(case: dict, modes: list[str]) -> str:
    """Draws the phases of all jobs over time, a panel per mode; all have the same scale, so lengths can be compared."""
    panels = [(mode, spans_of(case, mode)) for mode in modes]
    longest = max(end for _, jobs in panels for job in jobs for _, end in job) or 1e-9
    left, right, top, row, gap, wide = 70, 20, 64, 14, 46, 860
    heights = [len(jobs) * row for _, jobs in panels]
    height = top + sum(heights) + gap * len(panels)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + right}" height="{height}"'
        f' viewBox="0 0 {left + wide + right} {height}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="18" font-size="14">{html.escape(label(case))}</text>',
    ]
    at = left
    for phase, colour in zip(PHASES, _COLOURS, strict=True):
        out.append(f'<rect x="{at}" y="28" width="12" height="10" fill="{colour}"/>')
        out.append(f'<text x="{at + 16}" y="37">{phase}</text>')
        at += 90
    y = top
    ticks = _ticks(longest)
    for (mode, jobs), panel in zip(panels, heights, strict=True):
        out.append(f'<text x="{left}" y="{y - 5}" font-weight="bold">{mode}</text>')
        for tick in ticks:
            x = left + wide * tick / longest
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + panel}" stroke="#dddddd"/>')
            words = units.short(tick, "s") if tick else 0
            out.append(f'<text x="{x:.1f}" y="{y + panel + 13}" text-anchor="middle">{words}</text>')
        for index, job in enumerate(jobs):
            line = y + index * row
            out.append(f'<text x="{left - 6}" y="{line + 10}" text-anchor="end">job {index}</text>')
            for phase, colour, (begin, end) in zip(PHASES, _COLOURS, job, strict=True):
                length = max(wide * (end - begin) / longest, 0.4)
                out.append(
                    f'<rect x="{left + wide * begin / longest:.2f}" y="{line + 1.5}" width="{length:.2f}"'
                    f' height="{row - 3}" fill="{colour}"><title>job {index} {phase}:'
                    f" {units.quantity(max(end - begin, 0), 's')}</title></rect>"
                )
        y += panel + gap
    return "\n".join([*out, "</svg>", ""])
