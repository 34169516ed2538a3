<?php
// PHP with PDO; host, port, user and database come from the PG… variables here
$pdo = new PDO('pgsql:', options: [
    PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
    PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
    PDO::PGSQL_ATTR_DISABLE_PREPARES => true, // only behind a pooler in transaction mode
]);

function run(string $query, array $parameters = []): array
{
    global $pdo;
    $statement = $pdo->prepare($query);
    $statement->execute($parameters);
    return $statement->fetchAll();
}

function json(mixed $value): string
{
    return json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE);
}

$consume = 'select * from pgq.consume(topic => ?, consumer_group => ?)';
$enqueue = 'select * from pgq.enqueue(queue => ?, payload => ?::jsonb, delay => ?::interval)';
$publish = 'select * from pgq.publish(topic => ?, payload => ?::jsonb, key => ?)';
$group = ['orders', 'billing'];

run('select pgq.create_topic(topic => ?, partitions => ?)', ['orders', 1]);
run('select pgq.create_group(topic => ?, consumer_group => ?)', $group);
run('select pgq.create_queue(queue => ?)', ['mail']);

[$row] = run($publish, ['orders', json(['text' => 'Grüße, 東京 🐘']), 'ada']);
echo "published: offset {$row['log_offset']}\n";

// PDO has no arrays: one JSON parameter for each list. A JSON null is a null key.
$rows = run(
    'select * from pgq.publish_batch(topic => ?,
        payloads => array(select jsonb_array_elements(?::jsonb)),
        keys => array(select jsonb_array_elements_text(?::jsonb)))',
    [
        'orders',
        json([['text' => 'two'], ['text' => 'three'], ['text' => 'four']]),
        json(['ada', null, 'bob']),
    ]
);
foreach ($rows as $row) { // one for each partition
    echo "batch: offsets {$row['first_offset']} to {$row['last_offset']}\n";
}

// Bytes are bound as PARAM_LOB: execute([...]) would cut them at the first NUL.
$statement = $pdo->prepare('select * from pgq.publish(topic => :topic, body => :body)');
$statement->bindValue('topic', 'orders');
$statement->bindValue('body', "\x00\xffA", PDO::PARAM_LOB);
$statement->execute();
echo "bytes: offset {$statement->fetch()['log_offset']}\n";

$pdo->beginTransaction();
$messages = run($consume, $group);
$pdo->rollBack();
echo 'rolled back: ', count($messages), " messages\n";

$pdo->beginTransaction();
$messages = run($consume, $group);
// what is written here happens exactly once for each of these messages
$pdo->commit();
echo 'committed: ', count($messages), " messages\n";
foreach ($messages as $each) {
    $content = $each['payload'] !== null
        ? json_decode($each['payload'], true, flags: JSON_THROW_ON_ERROR)['text']
        : bin2hex(stream_get_contents($each['body'])); // bytea comes as a stream
    echo $each['log_offset'], ' ', $each['key'] ?? '-', ' ', $content, "\n";
}
echo 'left: ', count(run($consume, $group)), " messages\n";

run($enqueue, ['mail', json(['to' => 'ada']), null]);
run($enqueue, ['mail', json(['to' => 'bob']), '2 hours']);
[$job] = run('select * from pgq.claim_job(queue => ?)', ['mail']);
$to = json_decode($job['payload'], true)['to'];
echo "claimed: $to, attempt {$job['attempt']}\n";
foreach (['ack', 'stale ack'] as $name) {
    [$row] = run('select pgq.ack(?, ?)', [$job['job_id'], $job['lease_token']]);
    echo "$name: ", $row['ack'] ? 'true' : 'false', "\n"; // a real boolean
}

try {
    run($publish, ['nowhere', '{}', null]);
} catch (PDOException $error) {
    if ($error->getCode() !== 'MQ001') {
        throw $error;
    }
    echo "unknown topic: {$error->getCode()}\n";
}
