-- Lua: strings of all ages, most of them short-lived; a table that is kept at one size. churn.lua SECONDS
local finish = os.time() + tonumber(arg[1])
local kept = {}
local step = 0
while os.time() < finish do
  step = step + 1
  for i = 1, 50000 do
    local key = math.random(20000)
    kept[key] = string.rep(string.format("row %06d of step %06d", key, step), 1 + key % 20)
  end
  print("step " .. step)
  io.flush()
end
