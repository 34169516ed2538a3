# Perl with DBD::Pg; host, port, user and database come from the PG… variables here
use strict;
use warnings;
use utf8;
use DBI;
use DBD::Pg qw(:pg_types);
use JSON::PP;

binmode STDOUT, ':encoding(UTF-8)';

my $db = DBI->connect('dbi:Pg:', '', '', {
    AutoCommit       => 1,
    RaiseError       => 1,
    PrintError       => 0,
    pg_server_prepare => 0,    # only behind a pooler in transaction mode
});

# DBD::Pg encodes what goes out, so JSON must be text: encode_json would encode it twice.
my $json = JSON::PP->new->canonical;

my $publish = 'select * from pgq.publish(topic => ?, payload => ?::jsonb, key => ?)';
my $consume = 'select * from pgq.consume(topic => ?, consumer_group => ?)';
my $enqueue = 'select * from pgq.enqueue(queue => ?, payload => ?::jsonb, delay => ?::interval)';
my @group   = ('orders', 'billing');

sub run { my ($query, @values) = @_; return $db->selectall_arrayref($query, { Slice => {} }, @values) }

run('select pgq.create_topic(topic => ?, partitions => ?::integer)', 'orders', 1);
run('select pgq.create_group(topic => ?, consumer_group => ?)', @group);
run('select pgq.create_queue(queue => ?)', 'mail');

my $row = run($publish, 'orders', $json->encode({ text => 'Grüße, 東京 🐘' }), 'ada')->[0];
print "published: offset $row->{log_offset}\n";

# A reference to a list is an array; undef is a null in it.
my @payloads = map { $json->encode({ text => $_ }) } qw(two three four);
my $rows = run('select * from pgq.publish_batch(topic => ?, payloads => ?::jsonb[], keys => ?::text[])',
    'orders', \@payloads, ['ada', undef, 'bob']);
# One row for each partition.
print "batch: offsets $_->{first_offset} to $_->{last_offset}\n" for @$rows;

# Bytes are bound with their type: without it they would be cut at the first NUL.
my $statement = $db->prepare('select * from pgq.publish(topic => ?, body => ?)');
$statement->bind_param(1, 'orders');
$statement->bind_param(2, "\x00\xffA", { pg_type => PG_BYTEA });
$statement->execute;
print 'bytes: offset ', $statement->fetchrow_hashref->{log_offset}, "\n";
$statement->finish;

$db->begin_work;
my $messages = run($consume, @group);
$db->rollback;
print 'rolled back: ', scalar @$messages, " messages\n";

$db->begin_work;
$messages = run($consume, @group);
# what is written here happens exactly once for each of these messages
$db->commit;
print 'committed: ', scalar @$messages, " messages\n";
for my $each (@$messages) {
    my $content = defined $each->{payload}
        ? $json->decode($each->{payload})->{text} : unpack('H*', $each->{body});
    print join(' ', $each->{log_offset}, $each->{key} // '-', $content), "\n";
}
print 'left: ', scalar @{ run($consume, @group) }, " messages\n";

run($enqueue, 'mail', $json->encode({ to => 'ada' }), undef);
run($enqueue, 'mail', $json->encode({ to => 'bob' }), '2 hours');
my $job = run('select * from pgq.claim_job(queue => ?)', 'mail')->[0];
print "claimed: ", $json->decode($job->{payload})->{to}, ", attempt $job->{attempt}\n";
for my $name ('ack', 'stale ack') {
    my ($done) = $db->selectrow_array('select pgq.ack(?, ?)', undef, @$job{qw(job_id lease_token)});
    print "$name: ", $done ? 'true' : 'false', "\n";    # DBD::Pg makes a boolean 1 or 0
}

eval { run($publish, 'nowhere', '{}', undef) };
die $@ unless ($db->state // '') eq 'MQ001';
print 'unknown topic: ', $db->state, "\n";
