"""Small Python objects: one dict of metrics for every sample of a batch, all kept."""

from pace import steps

history = []
for step in steps():
    for sample in range(400):
        history.append({"step": step + 0.5, "loss": sample + 0.25, "name": f"sample {sample} of step {step}"})  # LEAK
