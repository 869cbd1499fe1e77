"""Draws datasets/pictures: pictures of the kinds that vision models are asked about, and prompts.jsonl, a question or an
answered question about each. Needs Pillow and numpy.

    python draw_pictures.py FOLDER
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

INK, PAPER = (30, 30, 40), (250, 248, 240)
COLORS = [(200, 60, 50), (50, 110, 190), (70, 150, 80), (220, 160, 40), (130, 80, 160)]


def sheet(width: int, height: int, color=PAPER):
    image = Image.new("RGB", (width, height), color)
    return image, ImageDraw.Draw(image)


def font(size: int):
    return ImageFont.load_default(size)


def bars():
    image, draw = sheet(420, 300)
    draw.text((120, 10), "Bicycles sold by month", INK, font(18))
    for i, (month, value) in enumerate(zip(("Jan", "Feb", "Mar", "Apr", "May"), (12, 30, 45, 38, 61))):
        x = 50 + 72 * i
        draw.rectangle((x, 260 - 3 * value, x + 48, 260), COLORS[i])
        draw.text((x + 8, 264), month, INK, font(16))
        draw.text((x + 12, 240 - 3 * value), str(value), INK, font(16))
    draw.line((40, 260, 410, 260), INK, 2)
    return image


def curve():
    image, draw = sheet(480, 280)
    for i, color in enumerate(COLORS[:2]):
        draw.line([(40 + x, 140 - 90 * math.exp(-x / 300) * math.sin(x / (25 + 20 * i))) for x in range(420)], color, 3)
    draw.line((40, 20, 40, 260), INK, 2)
    draw.line((40, 140, 460, 140), INK, 2)
    draw.text((300, 24), "two dampers", INK, font(20))
    return image


def receipt():
    image, draw = sheet(260, 420, (255, 255, 255))
    lines = ["CORNER SHOP", "12 Mill Lane", "", "bread        2.40", "milk  2 x    1.15", "apples       3.05", "soap         1.99",
             "", "TOTAL        9.74", "cash        10.00", "change       0.26", "", "thank you"]
    for i, line in enumerate(lines):
        draw.text((24, 24 + 28 * i), line, INK, font(18))
    return image.rotate(3, Image.Resampling.BICUBIC, fillcolor=(90, 80, 70))


def shapes():
    image, draw = sheet(336, 336, (240, 244, 250))
    draw.ellipse((20, 30, 120, 130), COLORS[0])
    draw.rectangle((180, 40, 300, 120), COLORS[1])
    draw.polygon([(80, 180), (20, 300), (140, 300)], COLORS[2])
    draw.regular_polygon((240, 240, 60), 5, fill=COLORS[3])
    draw.line((10, 160, 326, 150), INK, 4)
    return image


def plan():
    image, draw = sheet(400, 300, (232, 238, 226))
    for y in (60, 150, 240):
        draw.line((0, y, 400, y - 20), (255, 255, 255), 16)
    for x in (70, 200, 330):
        draw.line((x, 0, x + 20, 300), (255, 255, 255), 16)
    draw.line((0, 210, 130, 200, 250, 110, 400, 120), (120, 170, 220), 22)
    draw.ellipse((222, 160, 238, 176), COLORS[0])
    for place, text in (((90, 90), "Market"), ((228, 178), "Station"), ((20, 268), "Harbor Rd")):
        draw.text(place, text, INK, font(16))
    return image


def table():
    image, draw = sheet(400, 200, (255, 255, 255))
    rows = [("City", "km", "min"), ("Lund", "18", "14"), ("Lomma", "35", "27"), ("Ystad", "74", "61")]
    for r, row in enumerate(rows):
        for c, text in enumerate(row):
            draw.rectangle((20 + 120 * c, 20 + 40 * r, 140 + 120 * c, 60 + 40 * r), COLORS[1] if r == 0 else None, INK)
            draw.text((34 + 120 * c, 30 + 40 * r), text, (255, 255, 255) if r == 0 else INK, font(18))
    return image


def evening():
    """Like a photograph: gradients, noise, soft edges."""
    random = np.random.default_rng(7)
    y, x = np.mgrid[0:240, 0:360] / 240
    sky = np.stack([220 - 60 * y, 150 - 40 * y, 110 + 60 * y], -1)
    hills = (y > 0.62 + 0.08 * np.sin(5 * x) + 0.03 * np.sin(17 * x))[..., None]
    sun = np.exp(-((x - 1.05) ** 2 + (y - 0.45) ** 2) * 60)[..., None]
    light = np.where(hills, [40, 50, 45], sky + sun * [60, 90, 60]) + random.normal(0, 5, (240, 360, 1))
    return Image.fromarray(light.clip(0, 255).astype("uint8")).filter(ImageFilter.GaussianBlur(0.8))


def slip():
    """A long strip: far from square."""
    image, draw = sheet(640, 48, (255, 250, 210))
    draw.text((12, 10), "Meet me at platform 9 at 17:45, bring the blue folder.", (40, 40, 120), font(22))
    return image


PROMPTS = [
    (bars, "png", "In which month were most bicycles sold, and how many more than in January?",
     "In May: 61 bicycles, 49 more than the 12 of January."),
    (curve, "png", "Describe both curves.", None),
    (receipt, "png", "What did the apples cost, and is the total right?",
     "The apples cost 3.05. 2.40 + 2.30 + 3.05 + 1.99 = 9.74, so the total is right."),
    (shapes, "png", "List shapes and colors from top left to bottom right.", None),
    (plan, "png", "How do I get from the market to the station?", None),
    (table, "png", "Give this table as JSON.",
     '[{"city": "Lund", "km": 18, "min": 14}, {"city": "Lomma", "km": 35, "min": 27}, {"city": "Ystad", "km": 74, "min": 61}]'),
    (evening, "jpg", "What time of day is it here? Write two sentences.", None),
    (slip, "png", "When and where shall they meet?", "At 17:45 at platform 9."),
]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "prompts.jsonl", "w") as out:
        for draw, kind, question, answer in PROMPTS:
            name = f"{draw.__name__}.{kind}"
            options = dict(optimize=True) if kind == "png" else dict(quality=85)
            image = draw()
            (image.quantize(64) if kind == "png" else image).save(folder / name, **options)
            parts = [{"type": "image", "image": name}, {"type": "text", "text": question}]
            messages = [{"role": "user", "content": parts}] + ([{"role": "assistant", "content": answer}] if answer else [])
            print(json.dumps({"id": f"picture-{draw.__name__}", "messages": messages}, ensure_ascii=False), file=out)


if __name__ == "__main__":
    main()
