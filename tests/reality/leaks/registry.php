<?php
// A long-running worker keeps every job in a static registry.
class Registry
{
    private static array $jobs = [];

    public static function add(string $job): void
    {
        self::$jobs[] = $job;
    }
}

ini_set('memory_limit', '-1');
$end = microtime(true) + (float)$argv[1];
for ($step = 0; microtime(true) < $end; $step++) {
    echo "step $step\n";
    Registry::add(str_repeat(chr(65 + $step % 26), 262000));
    usleep(100000);
}
