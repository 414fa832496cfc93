# Perl: strings of all ages, most of them short-lived; a table that is kept at one size. churn.pl SECONDS
use strict;
use warnings;
$| = 1;
my $end = time + $ARGV[0];
my %kept;
for (my $step = 1; time < $end; $step++) {
    for (1 .. 50_000) {
        my $key = int rand 20_000;
        $kept{$key} = sprintf("row %06d of step %06d", $key, $step) x (1 + $key % 20);
    }
    print "step $step\n";
}
