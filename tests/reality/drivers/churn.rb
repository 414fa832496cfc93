# Ruby: objects of all ages, most of them short-lived; a table that is kept at one size. churn.rb SECONDS
finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV[0].to_f
kept = {}
step = 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  step += 1
  50_000.times do
    key = rand(20_000)
    kept[key] = format("row %06d of step %06d", key, step) * (1 + key % 20)
  end
  puts "step #{step}"
  $stdout.flush
end
