# Parents and children that refer to each other: Perl counts references and never frees them.
use strict;
use warnings;
use Time::HiRes qw(time sleep);

$| = 1;
my $end = time + $ARGV[0];
for (my $step = 0; time < $end; $step++) {
    print "step $step\n";
    my $parent = {name => $step};
    my $child = {parent => $parent};
    $parent->{child} = $child;
    $parent->{data} .= chr(65 + $step % 26) for 1 .. 200_000;
    sleep 0.1;
}
