// Listeners that close over their buffers are added to an emitter and never removed.
const { EventEmitter } = require('events');
const bus = new EventEmitter();
bus.setMaxListeners(0);
const end = Date.now() + 1000 * Number(process.argv[2]);
let step = 0;
(function next() {
  console.log(`step ${step++}`);
  const payload = Buffer.alloc(262144, 1);
  bus.on('done', () => payload.length);
  if (Date.now() < end) setTimeout(next, 100);
})();
