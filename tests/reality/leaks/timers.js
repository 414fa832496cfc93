// An interval for every connection, never cleared; each holds the connection's buffer.
const end = Date.now() + 1000 * Number(process.argv[2]);
let step = 0;
(function next() {
  console.log(`step ${step++}`);
  const buffer = new Uint8Array(262144).fill(1);
  setInterval(() => buffer[0]++, 60000).unref();
  if (Date.now() < end) setTimeout(next, 100);
})();
