"""Pillow: images made, turned, blurred and written as PNG and JPEG."""

import io

import pace
import PIL.Image
import PIL.ImageFilter

for step in pace.steps():
    image = PIL.Image.effect_noise((600 + 40 * (step % 5), 400), 50).convert("RGB")
    image = image.rotate(step % 360, expand=True).filter(PIL.ImageFilter.GaussianBlur(2)).resize((320, 240))
    for kind in ("PNG", "JPEG"):
        file = io.BytesIO()
        image.save(file, kind)
        PIL.Image.open(io.BytesIO(file.getvalue())).load()
