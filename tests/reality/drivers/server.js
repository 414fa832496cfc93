// Node: a page of a hundred rows. server.js PORT
const http = require('http');
http.createServer((request, response) => {
  const rows = Array.from({ length: 100 }, (_, i) => ({ row: i, name: `row ${i}` }));
  response.end(JSON.stringify(rows));
}).listen(Number(process.argv[2]), '127.0.0.1');
