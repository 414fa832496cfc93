"""Figures are saved and never closed: pyplot keeps each with its canvas."""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from pace import steps

plt.rcParams["figure.max_open_warning"] = 0
for step in steps(pace=0.05):
    figure = plt.figure(figsize=(8, 6), dpi=100)
    figure.text(0.1, 0.1, f"step {step}")
    figure.savefig(io.BytesIO(), format="raw")  # LEAK: a canvas of 800 x 600 x 4 bytes
