# Strings are kept in a global array.
$results = []
finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + ARGV[0].to_f
step = 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  puts "step #{step}"
  $stdout.flush
  $results << "x" * 262144
  step += 1
  sleep 0.1
end
