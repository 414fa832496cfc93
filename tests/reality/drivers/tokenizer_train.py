"""tokenizers: byte pairs learned from text again and again; one tokenizer encodes them all, for 0.23 keeps a cache for each that ever did."""

import random

import pace
import tokenizers

words = ["".join(random.choices("abcdefghijklmnop", k=random.randint(2, 9))) for _ in range(5000)]
texts = lambda: [" ".join(random.choices(words, k=20)) for _ in range(1000)]


def learned(text):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(text, tokenizers.trainers.BpeTrainer(vocab_size=2000, show_progress=False))
    return tokenizer


first = learned(texts())
for step in pace.steps():
    text = texts()
    learned(text)
    first.encode_batch(text)
