"""The log of an epoch in debug mode: before and after each phase, and each cleanup, with true differences."""

import tidemark

log = tidemark.TrainingLog(every=0, debug=True, out=print)
cleanup = tidemark.Cleanup(every=1, verbose=True, out=print)
for epoch in range(2):
    log.epoch(epoch)
    with log.phase("selfplay"):
        games = [bytearray(1 << 20) for _ in range(64)]
    with log.phase("training"):
        for step in range(epoch * 10 + 1, epoch * 10 + 11):
            log.step(step)
        games.clear()
    cleanup.step(step)
    log.epoch_end()
