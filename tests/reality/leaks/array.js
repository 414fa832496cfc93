// Objects of the V8 heap in an array of the module.
const requests = [];
const end = Date.now() + 1000 * Number(process.argv[2]);
let step = 0;
(function next() {
  console.log(`step ${step}`);
  for (let i = 0; i < 4000; i++) requests.push(new Array(32).fill(step + i));
  step++;
  if (Date.now() < end) setTimeout(next, 100);
})();
