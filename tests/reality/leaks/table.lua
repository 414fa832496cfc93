-- A table that remembers every message.
local socket = require("socket")
local messages = {}
local stop = socket.gettime() + tonumber(arg[1])
local step = 0
while socket.gettime() < stop do
  print("step " .. step)
  io.flush()
  for i = 1, 20 do
    messages[#messages + 1] = string.rep(string.format("%08d", 20 * step + i), 1600)
  end
  step = step + 1
  socket.sleep(0.1)
end
