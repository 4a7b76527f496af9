<?php
// phpredis against the service. Arguments: a port without tokens and a port that requires tokens.
declare(strict_types=1);

function check(bool $condition, mixed $what): void
{
    if (!$condition) {
        fwrite(STDERR, 'phpredis: ' . json_encode($what) . "\n");
        exit(1);
    }
}

[, $open, $guarded] = $argv;

$client = new Redis();
$client->connect('127.0.0.1', (int) $open);
check($client->ping() === true, 'ping');
check($client->select(0), 'select');
check($client->client('setname', 'worker') && $client->client('getname') === 'worker', 'name');
check($client->info()['role'] === 'master', $client->info());

$allowed = $client->rawCommand('TG.CHECK', 'api', 'php');
check(array_slice($allowed, 0, 4) === [1, 3, 2, -1] && $allowed[5] > 0, $allowed);
$full = $client->rawCommand('TG.CHECK', 'api', 'php', 'COST', '2', 'FULL');
check($full[0] === 'allowed' && $full[1] === 1 && $full[8] === 'used' && $full[9] === 3, $full);
check($client->rawCommand('TG.CHECK', 'api', 'php')[0] === 0, 'denied');
check($client->rawCommand('CL.THROTTLE', 'php', '15', '30', '60') === [0, 16, 15, -1, 2], 'throttle');
check($client->rawCommand('TG.RESET', 'api', 'php') === 1, 'reset');
check($client->rawCommand('TG.CHECK', 'apo', 'php') === false, 'an error');
check(str_contains($client->getLastError(), 'did you mean `api`?'), $client->getLastError());
$client->clearLastError();

$pipeline = $client->pipeline();
for ($number = 0; $number < 2000; $number++) {
    $pipeline->rawCommand('TG.CHECK', 'wide', 'php');
    $pipeline->echo((string) $number);
}
$replies = $pipeline->exec();
for ($number = 0; $number < 2000; $number++) {
    check($replies[2 * $number][2] === 999999 - $number, $replies[2 * $number]);
    check($replies[2 * $number + 1] === (string) $number, $replies[2 * $number + 1]);
}
$transaction = $client->multi();
for ($number = 0; $number < 2000; $number++) {
    $transaction->rawCommand('TG.CHECK', 'wide', 'php');
}
$replies = $transaction->exec();
check(count($replies) === 2000 && $replies[1999][2] === 996000, $replies[1999]);
$client->multi()->rawCommand('TG.CHECK', 'wide', 'php');
check($client->discard(), 'discard');
check($client->rawCommand('TG.PEEK', 'wide', 'php')[2] === 996000, 'a discarded transaction is not charged');
$client->close();

$stranger = new Redis();
$stranger->connect('127.0.0.1', (int) $guarded);
$denied = false;
try {
    $denied = $stranger->rawCommand('TG.CHECK', 'api', 'php') === false;
} catch (RedisException $error) {
    $denied = str_contains($error->getMessage(), 'NOAUTH');
}
check($denied, 'no token');
$user = new Redis();
$user->connect('127.0.0.1', (int) $guarded);
check($user->auth(['anyone', 'usage-token']), 'a token');
check($user->rawCommand('TG.CHECK', 'api', 'php')[0] === 1, 'a token');
check($user->auth('admin-token'), 'the token alone');
check($user->rawCommand('TG.RESET', 'api', 'php') === 1, "the admin's token");

echo "ok\n";
