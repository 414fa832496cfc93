"""tokenizers: byte pairs learned from text, again and again."""

import random

import pace
import tokenizers

words = ["".join(random.choices("abcdefghijklmnop", k=random.randint(2, 9))) for _ in range(5000)]
for step in pace.steps():
    text = [" ".join(random.choices(words, k=20)) for _ in range(1000)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.train_from_iterator(text, tokenizers.trainers.BpeTrainer(vocab_size=2000, show_progress=False))
    tokenizer.encode_batch(text)
