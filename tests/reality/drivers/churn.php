<?php
// PHP: objects of all ages, most of them short-lived; a table that is kept at one size. churn.php SECONDS
$end = microtime(true) + (float) $argv[1];
$kept = [];
for ($step = 1; microtime(true) < $end; $step++) {
    for ($i = 0; $i < 50000; $i++) {
        $key = random_int(0, 20000);
        $kept[$key] = str_repeat(sprintf("row %06d of step %06d", $key, $step), 1 + $key % 20);
    }
    echo "step $step\n";
}
