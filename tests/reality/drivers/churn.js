// Node: objects of all ages, most of them short-lived; a map that is kept at one size. churn.js SECONDS
const end = Date.now() + 1000 * Number(process.argv[2]);
const kept = new Map();
for (let step = 1; Date.now() < end; step++) {
  for (let i = 0; i < 50000; i++) {
    const key = Math.floor(Math.random() * 20000);
    kept.set(key, JSON.parse(JSON.stringify({ key, step, text: `row ${key + 100000} of ${step + 100000}`.repeat(1 + key % 20) })));
  }
  console.log(`step ${step}`);
}
